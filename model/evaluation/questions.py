"""Build what every checkpoint of a job is asked: the tasks with their prompts, and rows to observe attention on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.evaluation.job import Job
from model.evaluation.parts import Task
from model.evaluation.tasks import PlainTask
from model.evaluation.tokenizer import Tokenizer
from model.introspect import Sample, sample_of_stream


@dataclass
class Questions:
    """The tasks of a job, its tokenizer, and the rows on which attention is observed; None: attention is not observed.

    `batch_tokens` is set by a shortage of memory, for all that is asked from then on; None: there was no shortage.
    """

    tasks: list[Task]
    tokenizer: Tokenizer
    sample: Sample | None
    batch_tokens: int | None = None


def build_questions(job: Job, tokenizer: Tokenizer) -> Questions:
    """Build the questions of a job."""
    return Questions(build_tasks(job), tokenizer, sample_of_stream(job.observe) if job.observe else None)


class KeptQuestions:
    """Build the questions of a job, or return those of the job before where the job asks the same."""

    def __init__(self) -> None:
        self._asked: tuple[object, ...] = ()
        self._questions: Questions | None = None

    def __call__(self, job: Job, tokenizer: Tokenizer) -> Questions:
        """Return the questions of a job."""
        asked = (job.tokenizer, job.tasks, job.limit, job.max_new_tokens, job.trust_code, job.observe)
        if self._questions is None or asked != self._asked:
            self._asked, self._questions = asked, build_questions(job, tokenizer)
        return self._questions


def build_tasks(job: Job) -> list[Task]:
    """Build the tasks of a job with their prompts: lm-eval's, and files of plain items that lm-eval has no task for."""
    default = {"limit": job.limit}
    if job.max_new_tokens is not None:
        default["max_new_tokens"] = job.max_new_tokens
    if all(map(_is_plain, job.tasks)):  # importing lm-eval takes seconds
        return [PlainTask(task, **default) for task in job.tasks]
    from model.evaluation.harness_definitions import fresh_cache, tune_libraries
    from model.evaluation.harness_tasks import HarnessTask

    tune_libraries()
    with fresh_cache(job.output) as cache:
        return [
            PlainTask(task, **default)
            if _is_plain(task)
            else HarnessTask(task, cache=cache, trust_code=job.trust_code, **default)
            for task in job.tasks
        ]


def _is_plain(task: Mapping[str, Any]) -> bool:
    return bool(task.get("plain")) and not (task.get("yaml") or task.get("dataset_path"))
