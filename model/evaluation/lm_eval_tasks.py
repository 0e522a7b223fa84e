"""Split lm-eval's tasks into requests, which are the same for all models and built once, and
scoring."""

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
from dreamer_study.model.evaluation.lm_eval_definitions import build_task, one_line
from dreamer_study.model.evaluation.metrics import (
    Answer,
    MetricValues,
    TaskScores,
    digest_of_items,
    gold_bits_per_byte,
    token_perplexity,
)
from dreamer_study.pipeline.errors import InputError

# Aggregations over a corpus that are also defined for one document.
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
        """`limit` is the number of items to ask; `max_new_tokens` applies where the task sets none.

        Raises what `build_task` raises, and InputError for a template that reaches for more than
        the item.
        """
        self.specification = specification
        self.name: str = specification["task"]
        self._longest = max_new_tokens
        self._task = build_task(specification, cache, trust_code=trust_code)
        try:
            self._build_requests(limit)
        except SecurityError as error:
            raise InputError(
                f"benchmark {specification['benchmark']}: task {self.name}: a template reaches for"
                f" more than the item ({one_line(error)})"
            ) from error
        self._data_version = digest_of_items(
            instances[0].doc for instances in self._of_item.values()
        )

    def _build_requests(self, limit: int | None) -> None:
        """Render all prompts and gold answers."""
        # a progress bar that cannot be switched off
        with contextlib.redirect_stderr(io.StringIO()):
            self._task.build_all_requests(limit=limit)
        self._asked: dict[str, list[Instance]] = defaultdict(list)
        for instance in self._task.instances:
            self._asked[instance.request_type].extend([instance] * instance.repeats)
        self._of_item: dict[int, list[Instance]] = defaultdict(list)
        for instance in sorted(
            self._task.instances, key=lambda instance: (instance.doc_id, instance.idx)
        ):
            self._of_item[instance.doc_id].append(instance)
        # the request for the gold answer of each item that has one
        self._gold: dict[int, Instance] = {}
        for number, instances in self._of_item.items():
            if (request := gold_request(self._task, instances)) is not None:
                self._gold[number] = request
                if instances[0].request_type == "generate_until":
                    self._asked["loglikelihood"].append(request)

    @cached_property
    def requests(self) -> dict[str, list[Any]]:
        """The requests by kind: pairs of texts, texts, or prompts with generation settings (see
        LanguageModel)."""
        ask = {
            "loglikelihood": lambda arguments: arguments,
            "loglikelihood_rolling": lambda arguments: arguments[0],
            "generate_until": lambda arguments: (
                arguments[0],
                Generation.from_arguments(arguments[1], self._longest),
            ),
        }
        return {
            kind: [ask[kind](instance.args) for instance in asked]
            for kind, asked in self._asked.items()
        }

    def score(self, answers: Mapping[str, Sequence[Any]]) -> TaskScores:
        """Score every item behind every filter, from the answers in the order of the requests."""
        for asked in self._asked.values():
            for instance in asked:
                instance.resps, instance.filtered_resps = [], {}
        documents = []
        for kind, asked in self._asked.items():
            for instance, answer in zip(asked, answers[kind], strict=True):
                if kind == "loglikelihood_rolling":
                    documents.append((f"{self.name}/{instance.doc_id}", *answer))
                    answer = answer[0]
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
        )

    def _check_metric(self, measures: Sequence[MetricValues]) -> None:
        """Raise InputError where the benchmark's metric and filter are not among what the task
        measures."""
        benchmark, metric, filter_ = (
            self.specification.get(name) for name in ("benchmark", "metric", "filter")
        )
        if metric and (metric, filter_) not in [(one.metric, one.filter) for one in measures]:
            known = ", ".join(f"{one.metric} with {one.filter}" for one in measures)
            where = f"benchmark {benchmark}: task {self.name}"
            raise InputError(
                f"{where} has no metric {metric!r} with filter {filter_!r}; it has {known}"
            )

    def _answers(self) -> dict[str, Answer]:
        """Return what was chosen or written for each item; nothing of a task whose choices stand in
        its prompts."""
        found: dict[str, Answer] = {}
        choosing = self._task.OUTPUT_TYPE == "multiple_choice" and not getattr(
            self._task, "multiple_input", False
        )
        by_length = self.specification.get("metric") == "acc_norm"

        def likely(one: Instance) -> float:
            return one.resps[0][0] / (max(1, len(gold_answer(self._task, one))) if by_length else 1)

        for number, instances in self._of_item.items():
            request, prompt = self._gold.get(number), instances[0].args[0]
            if choosing:  # some metrics ask for the choices without the question, too
                text = gold_answer(
                    self._task, max((one for one in instances if one.args[0] == prompt), key=likely)
                )
            elif instances[0].request_type == "generate_until":
                text = instances[0].resps[0].strip()
            else:
                continue
            found[f"{self.name}/{number}"] = (
                text,
                prompt,
                request and gold_answer(self._task, request),
            )
        return found

    def _measures(self) -> dict[tuple[str, str], MetricValues]:
        measures: dict[tuple[str, str], MetricValues] = {}
        for filter_ in self._task.instances[0].filtered_resps:
            for number, instances in self._of_item.items():
                answers = [instance.filtered_resps[filter_] for instance in instances]
                for metric, finding in self._task.process_results(
                    instances[0].doc, answers
                ).items():
                    aggregate = self._task.aggregation().get(metric, mean)
                    of_corpus = (
                        () if aggregate is mean else ({}, aggregate, aggregate.__name__ in _SINGLE)
                    )
                    measure = measures.setdefault(
                        (metric, filter_), MetricValues(metric, filter_, *of_corpus)
                    )
                    measure.findings[f"{self.name}/{number}"] = finding
        return measures


def gold_request(task: Task, instances: Sequence[Instance]) -> Instance | None:
    """Return the request for the log-likelihood of an item's gold answer, given the item's requests
    in lm-eval's order.

    Among choices, and where lm-eval asks for one continuation, the request is one of `instances`;
    for an answer that is generated, a new one: the prompt, then the delimiter and the gold answer.
    None for a text whose perplexity is measured, and where the task has no gold answer in words.
    """
    first = instances[0]
    if first.request_type == "generate_until":
        gold = _gold_text(task, first.doc)
        continuation = f"{task.config.target_delimiter}{gold}"
        return (
            Instance("loglikelihood", first.doc, (first.args[0], continuation), 0, first.metadata)
            if gold
            else None
        )
    if first.request_type != "loglikelihood":
        return None
    if task.OUTPUT_TYPE == "multiple_choice":
        return _gold_choice(task, instances)
    return first if len(instances) == 1 else None


def gold_answer(task: Task, request: Instance) -> str:
    """Return the answer that a request of `gold_request` asks for, without the delimiter before
    it."""
    return request.args[1].removeprefix(task.config.target_delimiter)


def _gold_text(task: Task, document: object) -> str:
    """Return the gold answer as lm-eval compares it, the first of several; "" where there is none.

    A number in the place of the task's target stands for no answer, where there are no choices (as
    in ifeval).
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
    gold = _first(
        task.doc_to_text(document) if choices_in_prompts else task.doc_to_target(document)
    )
    if isinstance(gold, int):
        return instances[gold] if 0 <= gold < len(instances) else None
    return next((one for one in instances if gold_answer(task, one) == gold), None)


def _first(target: object) -> object:
    """Return the first of several targets; a single target unchanged."""
    if isinstance(target, list | tuple):
        return target[0] if target else None
    return target
