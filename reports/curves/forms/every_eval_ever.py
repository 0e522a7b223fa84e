"""Read a record of Every Eval Ever, in its schema 0.3, as `dreamer publish` writes some.

{"schema_version": "0.3.0",
 "model_info": {"id": "org/base", "additional_details": {"revision": "step500"}},
 "evaluation_results": [
    {"evaluation_name": "riddles",
     "metric_config": {"metric_name": "accuracy", "metric_unit": "percent",
                       "lower_is_better": false, "max_score": 100},
     "score_details": {"score": 34.27, "uncertainty": {"standard_error": {"value": 2.1},
                                                       "num_samples": 500}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.kinds import LOSS
from dreamer_study.reports.curves.scores import (
    ACCURACY,
    Report,
    Score,
    count_or_none,
    kind_of_metric,
    number_or_none,
)

PERCENT = ("percent", "percentage", "%")


def read_report(file: Path, content: Mapping[str, Any]) -> Report | None:
    """Read a record; None where a file is none."""
    results = content.get("evaluation_results")
    if not isinstance(results, list) or "schema_version" not in content:
        return None
    model = content.get("model_info") or {}
    details = model.get("additional_details") or {}
    name = str(model.get("id") or model.get("name") or "")
    fields: dict[str, Any] = {"variant": details.get("variant") or name}
    if details.get("seed") is not None:
        fields["seed"] = _whole(file, "seed", details["seed"])
    if details.get("tokens") is not None:
        fields["tokens"] = _whole(file, "tokens", details["tokens"])
    elif details.get("step") is not None:
        fields["step"] = _whole(file, "step", details["step"])
    revision = details.get("revision")
    identity = f"{name}, revision {revision}" if revision else name
    return Report(file, identity, fields, [*_scores(results)])


def _whole(file: Path, name: str, text: object) -> int:
    try:
        number = float(str(text))
    except ValueError:
        number = 0.5
    if number != round(number):
        what = "of tokens" if name == "tokens" else f"as a {name}"
        raise InputError(f"{file}: {text} is no whole number {what}")
    return int(number)


def _scores(results: list[Mapping[str, Any]]) -> Iterator[Score]:
    """Yield the scores of a record, as shares where they are percent."""
    for result in results:
        metric = result.get("metric_config") or {}
        details = result.get("score_details") or {}
        value = number_or_none(details.get("score"))
        if value is None:
            continue
        name = str(metric.get("metric_name") or metric.get("metric_id") or "score")
        uncertainty = details.get("uncertainty") or {}
        error = number_or_none((uncertainty.get("standard_error") or {}).get("value"))
        highest = number_or_none(metric.get("max_score"))
        is_percent = str(metric.get("metric_unit") or "").lower() in PERCENT
        scale = 100.0 if is_percent else 1.0
        if highest is not None and 1 < highest < float("inf"):
            scale = highest
        if metric.get("lower_is_better"):
            kind: str | None = LOSS
        else:
            is_share = number_or_none(metric.get("min_score")) == 0 and highest is not None
            kind = kind_of_metric(name) or (ACCURACY if is_share else None)
        yield Score(
            task=str(result.get("evaluation_name")),
            metric=name,
            filter="none",
            value=value / scale,
            stderr=None if error is None else error / scale,
            items=count_or_none(uncertainty.get("num_samples")),
            kind=kind,
        )
