"""Read a result file of lighteval, whose metrics have no filter.

    {"config_general": {"model_name": "org/base"},
     "results": {"leaderboard|mmlu:anatomy|5": {"acc": 0.33, "acc_stderr": 0.04},
                 "leaderboard|mmlu:_average|5": {"acc": 0.34, "acc_stderr": 0.039}, "all": {...}}}

Newer versions leave the suite out: `mmlu:anatomy|5`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dreamer_study.reports.curves.scores import (
    Report,
    Score,
    count_or_none,
    kind_of_metric,
    number_or_none,
)

ALL = "all"  # the mean over everything, which is no task
AVERAGE = ":_average"  # in the name of the mean over a task's parts
ERROR = "_stderr"


def read_report(file: Path, content: Mapping[str, Any]) -> Report | None:
    """Read a file; None where it is none of lighteval's."""
    general = content.get("config_general")
    results = content.get("results")
    if not isinstance(general, Mapping) or not isinstance(results, Mapping):
        return None
    averaged = {_family(task) for task in results if AVERAGE in task}
    scores: list[Score] = []
    for task, values in results.items():
        is_part = _family(task) in averaged and AVERAGE not in task
        if task != ALL and not is_part and isinstance(values, Mapping):
            scores += _scores(task, values, content)
    model = general.get("model_name") or (general.get("model_config") or {}).get("model_name") or ""
    revision = (general.get("model_config") or {}).get("revision") or general.get("model_sha")
    is_named = revision and revision != "main"
    return Report(file, f"{model}, revision {revision}" if is_named else str(model), {}, scores)


def _family(task: str) -> tuple[str, str]:
    """Return what the parts of a task have in common: (`leaderboard|mmlu`, `5`)."""
    name, _, shots = task.rpartition("|")
    whole, colon, _ = name.rpartition(":")
    return (whole if colon else task, shots)


def _scores(task: str, values: Mapping[str, Any], content: Mapping[str, Any]) -> Iterator[Score]:
    """Yield a score for every metric of a task."""
    parts = []
    if AVERAGE in task:
        results = content["results"]
        parts = [name for name in results if _family(name) == _family(task) and name != task]
    for metric, value in values.items():
        number = number_or_none(value)
        if number is None or metric.endswith(ERROR):
            continue
        error = number_or_none(values.get(f"{metric}{ERROR}"))
        items = _items(task, content)
        if AVERAGE in task:
            error = _error_of_mean([content["results"][part] for part in parts], metric)
            counts = [_items(part, content) for part in parts]
            items = sum(count or 0 for count in counts) if parts and all(counts) else None
        yield Score(
            task=task,
            metric=metric,
            filter="none",
            value=number,
            stderr=error,
            items=items,
            kind=kind_of_metric(metric),
        )


def _error_of_mean(parts: list[Mapping[str, Any]], metric: str) -> float | None:
    """Return the error of the mean over independent parts; lighteval's own is their mean error."""
    errors = [number_or_none(part.get(f"{metric}{ERROR}")) for part in parts]
    if not errors or any(error is None for error in errors):
        return None
    return math.sqrt(sum((error or 0) ** 2 for error in errors)) / len(errors)


def _items(task: str, content: Mapping[str, Any]) -> int | None:
    """Return the number of items of a task."""
    configs = content.get("config_tasks") or {}
    config = configs.get(task.rpartition("|")[0]) or configs.get(task) or {}
    return count_or_none(config.get("effective_num_docs"))
