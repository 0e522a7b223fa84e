"""Say how the comparisons stand that a study is read for: where on the curve, how sure, and what hangs on one task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.data import StudyData
from reports.text.answer import times
from reports.text.mean_factors import comparisons
from reports.text.names import measure_name, model_name, task_name
from reports.text.numbers import counted, fine_factor, fine_interval, listed, number, percent


def standing(data: StudyData) -> list[str]:
    """Return a text for each model and measure of the headline, the primary measure first."""
    rows = comparisons(data.mean_factors)
    primary = {measure_name(row) for row in rows.head(1).to_dict("records")}
    texts = []
    for row in rows.to_dict("records"):
        parts = [_ends(row, data.factor_by_target), _corrected(row), _hanging(row, data.without_one)]
        if pd.notna(row["detectable"]):
            parts.append(f"the smallest factor that such a study tells from 1 is {fine_factor(row['detectable'])}")
        first = ", the primary measure" * (measure_name(row) in primary)
        if any(parts):
            texts.append(f"{model_name(row)}, {measure_name(row)}{first}: {'; '.join(filter(None, parts))}.")
    return texts


def _corrected(row: Mapping[str, Any]) -> str:
    """Say whether the comparison is decided with all of the headline's taken together; empty where none is tested."""
    if pd.isna(row["p"]):
        return ""
    together = counted(int(row["comparisons"]), "comparison")
    return f"decided after correction for {together}: {'yes' if row['decided_adjusted'] else 'no'}"


def _hanging(row: Mapping[str, Any], without_one: pd.DataFrame) -> str:
    """Say what the average would tell without each family of tasks on which its decision hangs; empty where on none."""
    if pd.isna(row["hangs_on"]):
        return ""
    same = [without_one[name] == row[name] for name in ("depth", "variant", "baseline", "metric")]
    others = without_one[pd.concat(same, axis=1).all(axis=1) & ~without_one["decided"]].to_dict("records")
    said = [f"without {task_name(one['left_out'])} {_said(one)}" for one in others]
    return f"the decision hangs on one task: {listed(said)}"


def _said(row: Mapping[str, Any]) -> str:
    if pd.isna(row["factor"]):
        return "nothing in common"
    span = fine_interval(row, inverted=row["factor"] < 1)
    return times(row["factor"], " times") + (f" ({span})" if span else "")


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
        said.append(f"at {place} {_said(end)}")
    return ", ".join(said)
