"""Split lm-eval's tasks into requests and scoring.

The requests are the same for all models, and built once. Of an item of GSM8K, for example, whose
row is {"question": "Ann has ...", "answer": "... #### 7"}, they are

    "generate_until": ("Question: Ann has ...\\nAnswer:", Generation(("Question:", ...), 256))
    "loglikelihood": ("Question: Ann has ...\\nAnswer:", " ... #### 7")

where the second gives the bits per byte of the gold answer.
"""

from __future__ import annotations

import contextlib
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import lm_eval
from jinja2.exceptions import SecurityError
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import Task

from dreamer_study.model.evaluation.language_model import MAX_NEW_TOKENS, Generation
from dreamer_study.model.evaluation.lm_eval_definitions import (
    bounded_prompts,
    build_task,
    one_line,
)
from dreamer_study.model.evaluation.metrics import (
    Answer,
    MetricValues,
    TaskScores,
    digest_of_items,
    gold_bits_per_byte,
    token_perplexity,
)
from dreamer_study.model.evaluation.sampled_items import sampled_items
from dreamer_study.pipeline.errors import InputError

# Aggregations over a corpus that are also defined for one document.
TIE = 1e-5  # nats: what the order of sums in another batch may change
_SINGLE = ("perplexity", "weighted_perplexity", "bits_per_byte")


class LmEvalTask:
    """One task of lm-eval as requests to any model, and scores from the answers."""

    def __init__(
        self,
        specification: Mapping[str, Any],
        *,
        limit: int | None = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
        cache: Path | str | None = None,
        trust_code: bool = False,
    ) -> None:
        """Take the number of items to ask as `limit`: they are a sample (`sampled_items.py`).

        `max_new_tokens` applies where the task sets none.

        Raises what `build_task` raises, and InputError for a template that reaches for more than
        the item.
        """
        self.specification = specification
        self.name: str = specification["task"]
        self._max_new_tokens = max_new_tokens
        try:
            with bounded_prompts(specification):
                self._task = build_task(specification, cache, trust_code=trust_code)
                self._build_requests(limit)
        except SecurityError as error:
            raise InputError(
                f"benchmark {specification['benchmark']}: task {self.name}: a template uses"
                f" more than the item ({one_line(error)})"
            ) from error
        self._data_version = digest_of_items(
            instances[0].doc for instances in self._of_item.values()
        )

    def _build_requests(self, limit: int | None) -> None:
        """Render all prompts and gold answers."""
        # a progress bar that cannot be switched off
        with contextlib.redirect_stderr(io.StringIO()):
            chosen = sampled_items(self.name, len(self._task.eval_docs), limit)
            self._task.build_all_requests(samples=None if limit is None else chosen)
        self._asked: dict[str, list[Instance]] = defaultdict(list)
        for instance in self._task.instances:
            self._asked[instance.request_type].extend([instance] * instance.repeats)
        self._chosen_items = chosen
        self._of_item: dict[int, list[Instance]] = defaultdict(list)
        in_order = sorted(
            self._task.instances, key=lambda instance: (instance.doc_id, instance.idx)
        )
        for instance in in_order:
            # lm-eval counts the items of a sample from 0
            self._of_item[chosen[instance.doc_id]].append(instance)
        # the request for the gold answer of each item that has one
        self._gold: dict[int, Instance] = {}
        for number, instances in self._of_item.items():
            request = gold_request(self._task, instances)
            if request is None:
                continue
            self._gold[number] = request
            if instances[0].request_type == "generate_until":  # lm-eval does not ask for it
                self._asked["loglikelihood"].append(request)

    @cached_property
    def requests(self) -> dict[str, list[Any]]:
        """The requests by kind, as `LanguageModel.answer` takes them."""
        return {
            kind: [self._request(kind, instance.args) for instance in asked]
            for kind, asked in self._asked.items()
        }

    def _request(self, kind: str, arguments: tuple[Any, ...]) -> Any:
        """Turn the arguments of an lm-eval instance into a request."""
        if kind == "loglikelihood":
            return arguments  # context and continuation
        if kind == "loglikelihood_rolling":
            return arguments[0]  # a text
        prompt, generation = arguments
        return prompt, Generation.from_arguments(generation, self._max_new_tokens)

    def score(self, answers: Mapping[str, Sequence[Any]]) -> TaskScores:
        """Score every item behind every filter, from the answers in the order of the requests."""
        for asked in self._asked.values():
            for instance in asked:  # what another model has answered goes
                instance.resps = []
                instance.filtered_resps = {}
        documents: list[tuple[str, float, int]] = []
        for kind, asked in self._asked.items():
            for instance, answer in zip(asked, answers[kind], strict=True):
                if kind == "loglikelihood_rolling":
                    log_probability, tokens = answer
                    number = self._chosen_items[instance.doc_id]
                    documents.append((f"{self.name}/{number}", log_probability, tokens))
                    instance.resps.append(log_probability)
                else:
                    instance.resps.append(answer)
        gold = [
            (f"{self.name}/{number}", gold_answer(self._task, request), request.resps[0][0])
            for number, request in self._gold.items()
        ]
        self._task.apply_filters()
        measures = list(self._measures().values())
        if documents:
            measures.append(token_perplexity(documents))
        if gold:
            measures.append(gold_bits_per_byte(gold))
        self._check_metric(measures)
        version = self._task.VERSION
        return TaskScores(
            self.specification["benchmark"],
            None if version is None else str(version),
            self.specification.get("chance"),
            measures,
            data_version=self._data_version,
            harness_version=f"lm-eval {lm_eval.__version__}",
            answers=self._answers(),
            ties=self._ties(),
        )

    def _check_metric(self, measures: Sequence[MetricValues]) -> None:
        """Raise InputError where the task does not measure the benchmark's metric and filter."""
        metric = self.specification.get("metric")
        filter_ = self.specification.get("filter")
        measured = [(measure.metric, measure.filter) for measure in measures]
        if metric and (metric, filter_) not in measured:
            listed = ", ".join(f"{metric} with {filter_}" for metric, filter_ in measured)
            raise InputError(
                f"benchmark {self.specification.get('benchmark')}: task {self.name} has no metric"
                f" {metric!r} with filter {filter_!r}; it has {listed}"
            )

    def _answers(self) -> dict[str, Answer]:
        """Return what was chosen or written for each item.

        Nothing of a task whose choices stand in its prompts.
        """
        answers: dict[str, Answer] = {}
        choices_in_prompts = getattr(self._task, "multiple_input", False)
        chooses = self._task.OUTPUT_TYPE == "multiple_choice" and not choices_in_prompts
        for number, instances in self._of_item.items():
            if chooses:
                text = self._chosen(instances)
            elif instances[0].request_type == "generate_until":
                text = instances[0].resps[0].strip()
            else:
                continue
            prompt = instances[0].args[0]
            request = self._gold.get(number)
            gold = None if request is None else gold_answer(self._task, request)
            answers[f"{self.name}/{number}"] = (text, prompt, gold)
        return answers

    def _chosen(self, instances: Sequence[Instance]) -> str:
        """Return the likeliest choice of an item, by length where its metric is by length."""
        by_length = self.specification.get("metric") == "acc_norm"

        def likelihood(request: Instance) -> float:
            log_probability = request.resps[0][0]
            if by_length:
                return log_probability / max(1, len(gold_answer(self._task, request)))
            return log_probability

        # some metrics ask for the choices without the question, too
        prompt = instances[0].args[0]
        after_prompt = [request for request in instances if request.args[0] == prompt]
        return gold_answer(self._task, max(after_prompt, key=likelihood))

    def _ties(self) -> int:
        """Count the items whose two likeliest choices are closer than `TIE`."""
        if self._task.OUTPUT_TYPE != "multiple_choice":
            return 0
        ties = 0
        for instances in self._of_item.values():
            likely = sorted(request.resps[0][0] for request in instances)
            ties += len(likely) > 1 and likely[-1] - likely[-2] < TIE
        return ties

    def _measures(self) -> dict[tuple[str, str], MetricValues]:
        """Let lm-eval score each item behind each filter."""
        measures: dict[tuple[str, str], MetricValues] = {}
        for filter_ in self._task.instances[0].filtered_resps:
            for number, instances in self._of_item.items():
                answers = [instance.filtered_resps[filter_] for instance in instances]
                findings = self._task.process_results(instances[0].doc, answers)
                for metric, finding in findings.items():
                    if (metric, filter_) not in measures:
                        measures[metric, filter_] = self._empty_measure(metric, filter_)
                    measures[metric, filter_].findings[f"{self.name}/{number}"] = finding
        return measures

    def _empty_measure(self, metric: str, filter_: str) -> MetricValues:
        """Make a metric without findings, with its aggregate where it is no mean."""
        aggregate = self._task.aggregation().get(metric, mean)
        if aggregate is mean:
            return MetricValues(metric, filter_)
        single = aggregate.__name__ in _SINGLE
        return MetricValues(metric, filter_, aggregate=aggregate, single=single)


def gold_request(task: Task, instances: Sequence[Instance]) -> Instance | None:
    """Return the request for the log-likelihood of an item's gold answer.

    `instances` are the item's requests in lm-eval's order. Among choices, and where lm-eval asks
    for one continuation, the request is one of `instances`; for an answer that is generated, a new
    one: the prompt, then the delimiter and the gold answer. None for a text whose perplexity is
    measured, and where the task has no gold answer in words.
    """
    first = instances[0]
    if first.request_type == "generate_until":
        gold = _gold_text(task, first.doc)
        if not gold:
            return None
        prompt = first.args[0]
        continuation = f"{task.config.target_delimiter}{gold}"
        return Instance("loglikelihood", first.doc, (prompt, continuation), 0, first.metadata)
    if first.request_type != "loglikelihood":
        return None
    if task.OUTPUT_TYPE == "multiple_choice":
        return _gold_choice(task, instances)
    return first if len(instances) == 1 else None


def gold_answer(task: Task, request: Instance) -> str:
    """Return the answer that a request of `gold_request` asks for, without its delimiter."""
    return request.args[1].removeprefix(task.config.target_delimiter)


def _gold_text(task: Task, document: object) -> str:
    """Return the gold answer as lm-eval compares it, the first of several; "" where there is none.

    A number as the task's target, where there are no choices, stands for no answer (as in ifeval).
    """
    if isinstance(task.config.doc_to_target, int) and task.config.doc_to_choice is None:
        return ""
    target = _first(task.doc_to_target(document))
    if isinstance(target, int) and task.config.doc_to_choice is not None:
        target = task.doc_to_choice(document)[target]
    return str(target).strip() if isinstance(target, str | int | float) else ""


def _gold_choice(task: Task, instances: Sequence[Instance]) -> Instance | None:
    """Choose the request of the gold choice, which a task names by number or by text."""
    choices_in_prompts = getattr(task, "multiple_input", False)
    document = instances[0].doc
    # where the choices stand in the prompts, lm-eval takes the gold choice from doc_to_text
    targets = task.doc_to_text(document) if choices_in_prompts else task.doc_to_target(document)
    gold = _first(targets)
    if isinstance(gold, int):
        return instances[gold] if 0 <= gold < len(instances) else None
    for request in instances:
        if gold_answer(task, request) == gold:
            return request
    return None


def _first(target: object) -> object:
    """Return the first of several targets; a single target unchanged."""
    if isinstance(target, list | tuple):
        return target[0] if target else None
    return target
