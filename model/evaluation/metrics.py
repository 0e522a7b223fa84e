"""Aggregate the values of single items to rows of the result tables.

The tables are `evaluations`, `items`, `evaluation_versions` and `answers`. The items of all tasks
of a benchmark (the seven of MATH) are one pool: the value is the mean over all items, with the
standard error of this mean. Metrics of a corpus (perplexities) are computed over all documents at
once and have no standard error; their items hold the values of single documents.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dreamer_study.model.training.provenance import evaluation_code, packages
from dreamer_study.pipeline.errors import InputError

KEYS = ("run_id", "tokens", "task", "metric", "filter")
COLUMNS = {
    "evaluations": (*KEYS, "value", "stderr", "items", "chance", "task_version"),
    "items": (*KEYS, "item_id", "value"),
    "evaluation_versions": (
        *KEYS[:3],
        "code_version",
        "data_version",
        "harness_version",
        "packages",
        "weights",
    ),
    "answers": (*KEYS[:3], "item_id", "text", "question", "gold"),
    "depth_attention": ("run_id", "tokens", "query_depth", "key_depth", "score"),
    "expert_usage": ("run_id", "tokens", "depth", "expert", "selections"),
}
OBSERVED = ("depth_attention", "expert_usage")
GOLD = "gold_bits_per_byte"
WHOLE = ("tokens", "items", "query_depth", "key_depth", "depth", "expert", "selections")
REAL = ("value", "stderr", "chance", "score")


Answer = tuple[str, str, str | None]
"""What a model chose or wrote, the question, and the right answer if there is one in words."""


@dataclass
class MetricValues:
    """One metric behind one filter: a finding for each item, by item id.

    Without `aggregate`, findings are numbers and the metric is their mean. With `aggregate`, the
    metric is the aggregate of all findings; an item's own value is that of its finding alone if
    `single`, else a numeric finding.
    """

    metric: str
    filter: str
    findings: dict[str, Any] = field(default_factory=dict)
    aggregate: Callable[[list[Any]], float] | None = None
    single: bool = False


@dataclass(frozen=True)
class TaskScores:
    """The metrics of one task, with what the result tables say about the task."""

    benchmark: str
    version: str | None
    chance: float | None
    measures: Sequence[MetricValues]
    data_version: str | None = None  # a digest of the items
    harness_version: str | None = None  # the program that asked and scored
    # by item id; none where nothing is chosen or written
    answers: Mapping[str, Answer] = field(default_factory=dict)
    # items of which two choices are so nearly equal that another batch may choose the other
    ties: int = 0


def perplexity(findings: list[tuple[float, int]]) -> float:
    """Compute exp(-mean log-probability per unit), from (log-probability, units) of documents."""
    return math.exp(-sum(value for value, _ in findings) / sum(units for _, units in findings))


def bits_per_unit(findings: list[tuple[float, int]]) -> float:
    """Compute minus the mean base-2 log-probability per unit.

    From (log-probability in nats, units) of each document.
    """
    return -sum(value for value, _ in findings) / sum(units for _, units in findings) / math.log(2)


def token_perplexity(documents: Iterable[tuple[str, float, int]]) -> MetricValues:
    """Build the perplexity per token, which lm-eval lacks.

    From (item id, log-probability, tokens) of each document.
    """
    findings = {item: (value, tokens) for item, value, tokens in documents}
    return MetricValues("token_perplexity", "none", findings, perplexity, single=True)


def gold_bits_per_byte(answers: Iterable[tuple[str, str, float]]) -> MetricValues:
    """Build the bits per byte of the gold answer.

    From (item id, gold answer, its log-probability) of each item. Every item has a value long
    before answers are right, so fewer items distinguish models than by accuracy ("Signal and
    Noise", arXiv 2508.13144). Lower is better.
    """
    findings = {
        item: bits_per_unit([(value, max(1, len(text.encode())))]) for item, text, value in answers
    }
    return MetricValues(GOLD, "none", findings)


def digest_of_items(items: Iterable[Any]) -> str:
    """Hash the asked items in order to 16 hexadecimal digits, however they are stored."""
    digest = hashlib.blake2b(digest_size=8)
    for item in items:
        digest.update(json.dumps(item, sort_keys=True, default=str).encode() + b"\n")
    return digest.hexdigest()


def tables(
    run_id: str, tokens: int, scores: Sequence[TaskScores], weights: str | None = None
) -> dict[str, pa.Table]:
    """Build the rows of one checkpoint for each table.

    `weights` says which weights of the checkpoint were scored: "averaged", "raw" or "branches".
    Raises InputError where two tasks of a benchmark have different items of one id. Example: tasks
    a and b of one benchmark, with items worth 1, 0, 0 and 1, give one row of value 0.5 over 4
    items.
    """
    benchmarks: dict[str, list[TaskScores]] = {}
    for task in scores:
        benchmarks.setdefault(task.benchmark, []).append(task)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS if name not in OBSERVED}
    for benchmark, tasks in benchmarks.items():
        keys = {"run_id": run_id, "tokens": tokens, "task": benchmark}
        for pool in _pools(tasks).values():
            _add_metric(rows, keys, pool)
        made_by = {
            "code_version": evaluation_code(),
            "data_version": _joined(task.data_version for task in tasks),
            "harness_version": _joined(task.harness_version for task in tasks),
            "packages": packages(),
            "weights": weights,
        }
        rows["evaluation_versions"].append({**keys, **made_by})
        answers = {item: answer for task in tasks for item, answer in task.answers.items()}
        for item, (text, question, gold) in answers.items():
            answer = {"item_id": item, "text": text, "question": question, "gold": gold}
            rows["answers"].append({**keys, **answer})
    return {
        name: pa.Table.from_pylist(of_table, schema=schema(*COLUMNS[name]))
        for name, of_table in rows.items()
    }


Pool = list[tuple[TaskScores, MetricValues]]
"""The values of one metric behind one filter, of each task of a benchmark that has them."""


def _pools(tasks: Sequence[TaskScores]) -> dict[tuple[str, str], Pool]:
    """Collect the values of a benchmark's tasks by metric and filter."""
    pools: dict[tuple[str, str], Pool] = {}
    for task in tasks:
        for values in task.measures:
            pools.setdefault((values.metric, values.filter), []).append((task, values))
    return pools


def _add_metric(
    rows: Mapping[str, list[dict[str, Any]]], keys: Mapping[str, Any], pool: Pool
) -> None:
    """Add the row of one metric to `evaluations`, and those of its items to `items`."""
    findings = _pooled(pool)
    if not findings:
        return  # every item was left out
    first_task, first = pool[0]
    metric_keys = {**keys, "metric": first.metric, "filter": first.filter}
    value, error = _value(first.aggregate, list(findings.values()))
    rows["evaluations"].append(
        {
            **metric_keys,
            "value": value,
            "stderr": error,
            "items": len(findings),
            # guessing has an accuracy, no bits
            "chance": None if first.metric == GOLD else first_task.chance,
            "task_version": _joined(task.version for task, _ in pool),
        }
    )
    for item, finding in findings.items():
        own_value = _own_value(first, finding)
        if own_value is not None:
            rows["items"].append({**metric_keys, "item_id": item, "value": own_value})


def rows_beside(evaluations: pa.Table, depth: int | None = None) -> pa.Table:
    """Turn rows of `evaluations` into rows of `raw_evaluations`.

    With a `depth`, at which they were computed, into rows of `depth_evaluations`.
    """
    rows = evaluations.drop_columns(["task_version"])
    if depth is None:
        return rows
    return rows.add_column(2, "depth", pa.array([depth] * len(rows), pa.int64()))


def schema(*columns: str) -> pa.Schema:
    """Return columns of the result tables with their types."""
    types = dict.fromkeys(WHOLE, pa.int64()) | dict.fromkeys(REAL, pa.float64())
    return pa.schema([(column, types.get(column, pa.string())) for column in columns])


def _pooled(pool: Pool) -> dict[str, Any]:
    """Merge the findings of a benchmark's tasks by item id.

    Tasks that ask the same items, of one file, count once.
    """
    findings: dict[str, Any] = {}
    asked_in: dict[str, str | None] = {}  # by item id, the digest of the items of its task
    for task, values in pool:
        for item, finding in values.findings.items():
            same_items = task.data_version is not None and asked_in.get(item) == task.data_version
            if item in findings and not same_items:
                raise InputError(
                    f"benchmark {task.benchmark}: two of its tasks have an item {item!r}; give"
                    " every item a different id"
                )
            findings[item] = finding
            asked_in[item] = task.data_version
    return findings


def _joined(versions: Iterable[str | None]) -> str | None:
    """Join the distinct versions of a benchmark's tasks."""
    return ", ".join(dict.fromkeys(version for version in versions if version is not None)) or None


def _value(
    aggregate: Callable[[list[Any]], float] | None, findings: list[Any]
) -> tuple[float, float | None]:
    """Compute the metric over all items, and its standard error if the metric is a mean."""
    if aggregate is not None:
        return _finite(aggregate, findings), None
    values = [float(finding) for finding in findings]
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def _own_value(values: MetricValues, finding: Any) -> float | None:
    """Compute the value of one item; None where only a whole corpus has one."""
    try:
        if values.aggregate is not None and values.single:
            return _finite(values.aggregate, [finding])
        return float(finding)
    except (TypeError, ValueError, ZeroDivisionError):  # the last of an empty document
        return None


def _finite(aggregate: Callable[[list[Any]], float], findings: list[Any]) -> float:
    """Apply an aggregate; infinity where a perplexity exceeds what a float holds."""
    try:
        return float(aggregate(findings))
    except OverflowError:
        return math.inf
