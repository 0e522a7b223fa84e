"""From the values of single items to rows of the tables `evaluations` and `items`.

Where a benchmark consists of several tasks (the five MMLU subjects, the seven of MATH), their items are one pool: the
value is the mean over all items, and the standard error that of this mean. Measures of a whole corpus (perplexities)
are taken over all documents at once and have no standard error; their items hold the values of single documents.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from model.training.provenance import evaluation_code, packages

if TYPE_CHECKING:
    import pyarrow as pa

KEYS = ("run_id", "tokens", "task", "metric", "filter")
COLUMNS = {
    "evaluations": (*KEYS, "value", "stderr", "items", "chance", "task_version"),
    "items": (*KEYS, "item_id", "value"),
    "evaluation_versions": (*KEYS[:3], "code_version", "data_version", "harness_version", "packages"),
    "depth_attention": ("run_id", "tokens", "query_depth", "key_depth", "score"),
    "expert_usage": ("run_id", "tokens", "depth", "expert", "selections"),
}
WHOLE = ("tokens", "items", "query_depth", "key_depth", "depth", "expert", "selections")
REAL = ("value", "stderr", "chance", "score")


@dataclass
class MetricValues:
    """One metric behind one filter: what was found for each item, by item id, and how that becomes one number.

    Without `aggregate` the findings are numbers and the number is their mean. With it, an item's own value is the
    aggregate of its finding alone where `single`, else the finding if it is a number, else it has none.
    """

    metric: str
    filter: str
    findings: dict[str, Any] = field(default_factory=dict)
    aggregate: Callable[[list[Any]], float] | None = None
    single: bool = False


@dataclass(frozen=True)
class TaskScores:
    """The measures of one task, and what the results tables say about it."""

    benchmark: str
    version: str | None
    chance: float | None
    measures: Sequence[MetricValues]
    data_version: str | None = None  # a digest of the items
    harness_version: str | None = None  # who asked and scored


def perplexity(findings: list[tuple[float, int]]) -> float:
    """exp of minus the mean log-probability per unit, from (log-probability, units) of each document."""
    return math.exp(-sum(value for value, _ in findings) / sum(units for _, units in findings))


def bits_per_unit(findings: list[tuple[float, int]]) -> float:
    """Minus the mean base-2 log-probability per unit."""
    return -sum(value for value, _ in findings) / sum(units for _, units in findings) / math.log(2)


def token_perplexity(documents: Iterable[tuple[str, float, int]]) -> MetricValues:
    """The measure lm-eval does not have, from (item id, log-probability, tokens) of each document."""
    findings = {item: (value, tokens) for item, value, tokens in documents}
    return MetricValues("token_perplexity", "none", findings, perplexity, single=True)


def digest_of_items(items: Iterable[Any]) -> str:
    """16 hexadecimal digits over the items that were asked, in order: equal wherever and however they were stored."""
    digest = hashlib.blake2b(digest_size=8)
    for item in items:
        digest.update(json.dumps(item, sort_keys=True, default=str).encode() + b"\n")
    return digest.hexdigest()


def tables(run_id: str, tokens: int, scored: Iterable[TaskScores]) -> dict[str, pa.Table]:
    """The rows of one checkpoint for the tables `evaluations`, `items` and `evaluation_versions`."""
    import pyarrow as pa

    scored = list(scored)
    pools: dict[tuple[str, str, str], list[tuple[TaskScores, MetricValues]]] = {}
    for task in scored:
        for measure in task.measures:
            pools.setdefault((task.benchmark, measure.metric, measure.filter), []).append((task, measure))
    evaluations, items = [], []
    for (benchmark, metric, filter_), parts in pools.items():
        key = {"run_id": run_id, "tokens": tokens, "task": benchmark, "metric": metric, "filter": filter_}
        first = parts[0][1]
        findings = {item: finding for _, measure in parts for item, finding in measure.findings.items()}
        value, error = _value(first.aggregate, list(findings.values()))
        evaluations.append(
            key
            | {
                "value": value,
                "stderr": error,
                "items": len(findings),
                "chance": parts[0][0].chance,
                "task_version": _joined(task.version for task, _ in parts),
            }
        )
        for item, finding in findings.items():
            own = _own_value(first, finding)
            if own is not None:
                items.append(key | {"item_id": item, "value": own})
    versions = [
        {
            "run_id": run_id,
            "tokens": tokens,
            "task": benchmark,
            "code_version": evaluation_code(),
            "data_version": _joined(task.data_version for task in scored if task.benchmark == benchmark),
            "harness_version": _joined(task.harness_version for task in scored if task.benchmark == benchmark),
            "packages": packages(),
        }
        for benchmark in dict.fromkeys(task.benchmark for task in scored)
    ]
    rows = {"evaluations": evaluations, "items": items, "evaluation_versions": versions}
    return {name: pa.Table.from_pylist(found, schema=schema(*COLUMNS[name])) for name, found in rows.items()}


def depth_rows(evaluations: pa.Table, depth: int) -> pa.Table:
    """Rows of `evaluations` found at `depth` as rows of the table `depth_evaluations`."""
    import pyarrow as pa

    columns = evaluations.drop_columns(["task_version"])
    return columns.add_column(2, pa.field("depth", pa.int64()), pa.array([depth] * len(columns), pa.int64()))


def schema(*columns: str) -> pa.Schema:
    """Columns of the results tables with their types."""
    import pyarrow as pa

    kinds = dict.fromkeys(WHOLE, pa.int64()) | dict.fromkeys(REAL, pa.float64())
    return pa.schema([(column, kinds.get(column, pa.string())) for column in columns])


def _joined(versions: Iterable[str | None]) -> str | None:
    """The distinct versions of a benchmark's tasks."""
    return ", ".join(dict.fromkeys(version for version in versions if version is not None)) or None


def _value(aggregate: Callable[[list[Any]], float] | None, findings: list[Any]) -> tuple[float, float | None]:
    """The number for all items, and its standard error where it is a mean."""
    if aggregate is not None:
        return _finite(aggregate, findings), None
    values = [float(finding) for finding in findings]
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def _own_value(measure: MetricValues, finding: Any) -> float | None:
    """The value of one item; None where it has none: an empty document, a metric of the whole corpus alone."""
    try:
        if measure.aggregate is not None and measure.single:
            return _finite(measure.aggregate, [finding])
        return float(finding)
    except (TypeError, ValueError, ZeroDivisionError):
        return None


def _finite(aggregate: Callable[[list[Any]], float], findings: list[Any]) -> float:
    """The aggregate; infinity where an untrained model's perplexity is beyond what a float holds."""
    try:
        return float(aggregate(findings))
    except OverflowError:
        return math.inf
