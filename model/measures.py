"""From the values of single items to rows of the tables `evaluations` and `items`.

Where a benchmark consists of several tasks (the five MMLU subjects, the seven of MATH), their items are one pool: the
value is the mean over all items, and the standard error that of this mean. Measures of a whole corpus (perplexities)
are taken over all documents at once and have no standard error; their items hold the values of single documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Measure:
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
class Scored:
    """The measures of one task, and what the results tables say about it."""

    benchmark: str
    version: str | None
    chance: float | None
    measures: Sequence[Measure]


def perplexity(findings: list[tuple[float, int]]) -> float:
    """exp of minus the mean log-probability per unit, from (log-probability, units) of each document."""
    return math.exp(-sum(value for value, _ in findings) / sum(units for _, units in findings))


def bits_per_unit(findings: list[tuple[float, int]]) -> float:
    """Minus the mean base-2 log-probability per unit."""
    return -sum(value for value, _ in findings) / sum(units for _, units in findings) / math.log(2)


def token_perplexity(documents: Iterable[tuple[str, float, int]]) -> Measure:
    """The measure lm-eval does not have, from (item id, log-probability, tokens) of each document."""
    findings = {item: (value, tokens) for item, value, tokens in documents}
    return Measure("token_perplexity", "none", findings, perplexity, single=True)


def tables(run_id: str, tokens: int, scored: Iterable[Scored]) -> dict[str, pa.Table]:
    """The rows of one checkpoint for the tables `evaluations` and `items`."""
    import pyarrow as pa

    pools: dict[tuple[str, str, str], list[tuple[Scored, Measure]]] = {}
    for task in scored:
        for measure in task.measures:
            pools.setdefault((task.benchmark, measure.metric, measure.filter), []).append((task, measure))
    evaluations, items = [], []
    for (benchmark, metric, filter_), parts in pools.items():
        key = {"run_id": run_id, "tokens": tokens, "task": benchmark, "metric": metric, "filter": filter_}
        first = parts[0][1]
        findings = {item: finding for _, measure in parts for item, finding in measure.findings.items()}
        value, error = _value(first.aggregate, list(findings.values()))
        versions = dict.fromkeys(task.version for task, _ in parts if task.version is not None)
        evaluations.append(
            key
            | {
                "value": value,
                "stderr": error,
                "items": len(findings),
                "chance": parts[0][0].chance,
                "task_version": ", ".join(versions) or None,
            }
        )
        for item, finding in findings.items():
            own = _own_value(first, finding)
            if own is not None:
                items.append(key | {"item_id": item, "value": own})
    kinds = {
        "tokens": pa.int64(),
        "items": pa.int64(),
        "value": pa.float64(),
        "stderr": pa.float64(),
        "chance": pa.float64(),
    }
    keys = ("run_id", "tokens", "task", "metric", "filter")
    columns = {
        "evaluations": (*keys, "value", "stderr", "items", "chance", "task_version"),
        "items": (*keys, "item_id", "value"),
    }
    return {
        name: pa.Table.from_pylist(
            rows, schema=pa.schema([(column, kinds.get(column, pa.string())) for column in columns[name]])
        )
        for name, rows in (("evaluations", evaluations), ("items", items))
    }


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


def _own_value(measure: Measure, finding: Any) -> float | None:
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
