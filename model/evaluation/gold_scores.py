"""Score the gold answers of a benchmark's tasks, and trivial ones, as if a model had given them.

`python -P -m dreamer_study.model.evaluation.gold_scores <job.json>` writes a line of JSON for each
task and each item, as soon as the item is scored:

    {"begins": 0}
    {"items": 1319}
    {"item": "gsm8k/0", "gold": "#### 18", "score": 1.0, "behind": 1.0, "error": "",
     "answer": "18", "trivial": {"empty answer": 0.0}, "read": 702, "written": 256}

`begins` is the number of a task of the job, and `items` how many items the task has.
`answer` is the text by which equal gold answers are counted, `trivial` what trivial rules score,
`read` the bytes that a model reads, and `written` the tokens that it may write.

`ceilings.py` reads the lines, and ends this process where an item takes too long: some scorers can
hang, in code that no signal of Python ends. Only lm-eval is imported, no model.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.task import Task

from dreamer_study.model.evaluation.lm_eval_definitions import (
    bounded_prompts,
    build_task,
    tune_libraries,
)
from dreamer_study.model.evaluation.right_answers import check_right_answers
from dreamer_study.model.evaluation.trivial_answers import (
    UNLIKELY,
    answer_text,
    bytes_read,
    tokens_written,
    trivial_answers,
)
from dreamer_study.pipeline.errors import InputError

_BEHIND = 20  # items of which the answer behind the delimiter is scored too
_USUAL_LENGTH = 256  # tokens at most, lm-eval's limit where a task has none of its own


def gold_scores(
    specification: Mapping[str, Any], cache: Path | str, first: int, *, trust_code: bool = False
) -> Iterator[dict[str, Any]]:
    """Score the gold answers of a task from its item number `first` on.

    Yields the lines of this module but `begins`; none of a task whose items have no right answer,
    as a text whose perplexity is measured. Raises InputError for items without a right answer, and
    where the task does not measure the benchmark's metric and filter.
    """
    with bounded_prompts(specification):
        task = build_task(specification, cache, trust_code=trust_code)
        check_right_answers(task, specification)
        if task.OUTPUT_TYPE == "loglikelihood_rolling":
            return
        with contextlib.redirect_stderr(io.StringIO()):  # a progress bar
            task.build_all_requests()
    of_item: dict[int, list[Instance]] = {}
    for instance in sorted(task.instances, key=lambda one: (one.doc_id, one.idx)):
        of_item.setdefault(instance.doc_id, []).append(instance)
    yield {"items": len(of_item)}
    name = specification["task"]
    score = _scorer(task, specification)
    for number, instances in of_item.items():
        if number < first:
            continue
        gold, answers = _gold_answers(task, instances)
        found, error = _best(score, instances, answers)
        filtered = instances[0].filtered_resps.get(specification.get("filter") or "none")
        behind = None
        if number < _BEHIND and task.OUTPUT_TYPE == "generate_until" and gold:
            written = [f"{task.config.target_delimiter}{answer}" for answer in answers]
            behind, _ = _best(score, instances, written)
        trivial = {
            rule: _best(score, instances, [answer])[0]
            for rule, answer in trivial_answers(task, instances).items()
        }
        yield {
            "item": f"{name}/{number}",
            "gold": gold,
            "score": found,
            "behind": behind,
            "error": error,
            "answer": answer_text(task, gold, filtered),
            "trivial": trivial,
            "read": bytes_read(task, instances, gold),
            "written": tokens_written(task, instances, _USUAL_LENGTH),
        }


Score = Callable[[Sequence[Instance], Any], float | None]


def _scorer(task: Task, specification: Mapping[str, Any]) -> Score:
    """Return the function that scores an answer to an item behind the benchmark's filter."""
    metric = specification["metric"]
    filter_ = specification.get("filter") or "none"

    def score(instances: Sequence[Instance], answer: Any) -> float | None:
        """Score an answer; None for a metric of a whole corpus, which no single item has."""
        for number, instance in enumerate(instances):
            one = answer if isinstance(answer, str) else answer[number]
            instance.resps = [one] * max(1, instance.repeats)
            instance.filtered_resps = {}
        task.instances[:] = instances  # those whose answers lm-eval filters
        task.apply_filters()
        filters = instances[0].filtered_resps
        if filter_ not in filters:
            raise InputError(_no_metric(specification, filters, [metric]))
        answers = [instance.filtered_resps[filter_] for instance in instances]
        findings = task.process_results(instances[0].doc, answers)
        if metric not in findings:
            raise InputError(_no_metric(specification, filters, findings))
        try:
            return float(findings[metric])
        except (TypeError, ValueError):
            return None

    return score


def _no_metric(specification: Mapping[str, Any], filters: Mapping[str, Any], metrics: Any) -> str:
    return (
        f"benchmark {specification['benchmark']}: task {specification['task']} has no metric"
        f" {specification['metric']!r} with filter {specification.get('filter')!r}; it has"
        f" {', '.join(metrics)} with {', '.join(filters)}"
    )


def _best(
    score: Score, instances: Sequence[Instance], answers: Sequence[Any]
) -> tuple[float | None, str]:
    """Return the best score of several forms of an answer, and the scorer's error if all fail."""
    found: list[float | None] = []
    problem = ""
    for answer in answers:
        try:
            found.append(score(instances, answer))
        except InputError:
            raise
        except Exception as error:  # of the task's own scorer
            problem = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            continue
        if found[-1] is None or found[-1] >= 1:
            return found[-1], ""
    return (max(found), "") if found else (0.0, problem)  # type: ignore[type-var]


def _gold_answers(task: Task, instances: Sequence[Instance]) -> tuple[str, list[Any]]:
    """Return an item's gold answer in words, and the answers of a model that gives it.

    A task with a scorer of its own may read the answer out of a form; there the answer in a box
    counts as well. An answer ends where a stop string of the task ends it.
    """
    item = instances[0].doc
    if task.OUTPUT_TYPE == "multiple_choice":
        return _gold_choice(task, instances)
    target = task.doc_to_target(item)
    if isinstance(target, list | tuple):
        target = next((each for each in target if str(each).strip()), "")
    if task.OUTPUT_TYPE == "loglikelihood":
        return str(target), [[(0.0, True)]]
    if isinstance(target, int) and task.config.doc_to_choice is not None:
        target = task.doc_to_choice(item)[target]
    gold = str(target)
    until = (instances[0].args[1] or {}).get("until") or ()
    stops = [until] if isinstance(until, str) else [stop for stop in until if stop]
    forms = [gold]
    if callable(task.config.process_results):
        forms += [rf"$\boxed{{{gold}}}$"]
    return gold, [_cut(form, stops) for form in forms]


def _gold_choice(task: Task, instances: Sequence[Instance]) -> tuple[str, list[Any]]:
    """Make the log-likelihoods by which the right choice, or one of equal words, is likeliest."""
    item = instances[0].doc
    choices = task.doc_to_choice(item)
    in_prompts = getattr(task, "multiple_input", 0)
    label = task.doc_to_text(item) if in_prompts else task.doc_to_target(item)
    if isinstance(label, list | tuple):
        label = label[0]
    gold = choices[label] if isinstance(label, int) else str(label)
    if in_prompts:
        right = [number == label for number in range(len(choices))]
    else:
        right = [choice == gold for choice in choices]
    answers = [(0.0 if each else UNLIKELY, each) for each in right]
    # some metrics ask for the choices without the question too
    answers += [(-1.0, False)] * (len(instances) - len(choices))
    return gold, [answers]


def _cut(text: str, stops: Sequence[str]) -> str:
    for stop in stops:
        text = text.split(stop, 1)[0]
    return text


def main() -> int:
    """Score the gold answers of a job, `{"tasks": [...], "first": n, "trust_code": ...}`.

    `first` is the item of the first task that comes first, where those before it are scored.
    """
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tasks print is no line of ours
    job = json.loads(Path(sys.argv[1]).read_text())
    tune_libraries()

    def write(line: Mapping[str, Any]) -> None:
        print(json.dumps(line), file=output, flush=True)

    try:
        with TemporaryDirectory(prefix=".datasets-") as cache:
            for number, specification in enumerate(job["tasks"]):
                write({"begins": number})
                first = job["first"] if number == 0 else 0
                for line in gold_scores(specification, cache, first, trust_code=job["trust_code"]):
                    write(line)
    except InputError as error:
        write({"refused": str(error)})
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
