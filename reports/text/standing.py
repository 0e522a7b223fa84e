"""Say how the comparisons stand that a study is read for: where on the curve, how sure, and what hangs on one task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.data import StudyData
from reports.text.answer import times
from reports.text.mean_factors import comparisons
from reports.text.names import measure_name, model_name
from reports.text.numbers import counted, fine_interval, number, percent


def standing(data: StudyData) -> list[str]:
    """Return a text for each model and measure of the headline, the primary measure first."""
    rows = comparisons(data.mean_factors)
    primary = {measure_name(row) for row in rows.head(1).to_dict("records")}
    return [
        f"{model_name(row)}, {measure_name(row)}{', the primary measure' * (measure_name(row) in primary)}: {text}."
        for row in rows.to_dict("records")
        if (text := "; ".join(filter(None, [_ends(row, data.factor_by_target), _corrected(row)])))
    ]


def _corrected(row: Mapping[str, Any]) -> str:
    """Say whether the comparison is decided with all of the headline's taken together; empty where none is tested."""
    if pd.isna(row["p"]):
        return ""
    together = counted(int(row["comparisons"]), "comparison")
    return f"decided after correction for {together}: {'yes' if row['decided_adjusted'] else 'no'}"


def _ends(row: Mapping[str, Any], by_target: pd.DataFrame) -> str:
    """Say the factor at both ends of the range that both curves cover; empty where they share none."""
    same = [by_target[name] == row[name] for name in ("depth", "variant", "task", "metric")]
    targets = by_target[pd.concat(same, axis=1).all(axis=1)].sort_values(
        "target", ascending=row["metric"] == "accuracy"
    )
    if targets.empty:
        return ""
    said = []
    for end in (targets.iloc[0].to_dict(), targets.iloc[-1].to_dict()):
        place = percent(end["target"]) if row["metric"] == "accuracy" else f"{number(end['target'], 2)} bits per byte"
        span = fine_interval(end, inverted=end["factor"] < 1)
        said.append(f"{times(end['factor'], ' times')} at {place}{f' ({span})' if span else ''}")
    return ", ".join(said)
