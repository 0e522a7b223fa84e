"""Say how the comparisons stand that a study is read for: where on the curve, how sure, and what
hangs on one task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.text.mean_factors import comparisons
from dreamer_study.reports.text.names import depth_name, measure_name, model_name, task_name
from dreamer_study.reports.text.numbers import (
    as_many,
    counted,
    interval,
    listed,
    number,
    percent,
    ratio,
)
from dreamer_study.sql.names import AVERAGE


def standing(data: StudyData) -> list[str]:
    """Return a text for each measure of the headline, the primary first: what is decided, and what
    is detectable."""
    rows, texts = comparisons(data.mean_factors), []
    asked = measure_name({"metric": "accuracy", "task": AVERAGE})
    for _, part in rows.groupby(["metric", "task"], sort=False):
        found = part.to_dict("records")
        parts = [
            _corrected(part[part["p"].notna()]),
            *(_hanging(row, data.without_one) for row in found),
        ]
        detectable = part["detectable"].dropna()
        effects = list(
            dict.fromkeys(
                ratio(1 / end) for end in (detectable.min(), detectable.max()) if pd.notna(end)
            )
        )
        parts += [f"minimum detectable effect: {' to '.join(effects)} times as many"] * bool(
            effects
        )
        name = measure_name(found[0])
        primary = (
            ""
            if texts
            else (
                ", the primary measure"
                if name == asked
                else f", in place of {asked}, the primary one"
            )
        )
        if any(parts):
            texts.append(f"{name[0].upper()}{name[1:]}{primary}: {'; '.join(filter(None, parts))}.")
    return texts


def _corrected(tested: pd.DataFrame) -> str:
    """Say which comparisons are decided with all of the headline's taken together; empty where none
    is tested."""
    if tested.empty:
        return ""
    together = counted(int(tested["comparisons"].iloc[0]), "comparison")
    decided = [
        model_name(row)
        for row in tested[tested["decided_adjusted"].astype(bool)].to_dict("records")
    ]
    return f"decided after correction for {together}: {listed(decided) or 'none'}"


def _hanging(row: Mapping[str, Any], without_one: pd.DataFrame) -> str:
    """Say what the average would tell without each family of tasks on which its decision hangs;
    empty where on none."""
    if pd.isna(row["hangs_on"]):
        return ""
    same = [without_one[name] == row[name] for name in ("depth", "variant", "baseline", "metric")]
    agrees = without_one["decided"] & ((without_one["factor"] > 1) == (row["factor"] > 1))
    others = without_one[pd.concat(same, axis=1).all(axis=1) & ~agrees].to_dict("records")
    said = [f"without {task_name(one['left_out'])} {_said(one)}" for one in others]
    return f"the decision on {model_name(row)} hangs on one task: {listed(said)}"


def _said(row: Mapping[str, Any]) -> str:
    if pd.isna(row["factor"]):
        return "nothing in common"
    span = interval(row)
    return as_many(row["factor"]) + (f" ({span})" if span else "")


def both_ends(means: pd.DataFrame, by_target: pd.DataFrame) -> list[str]:
    """Say for each depth the ratio of each model of the headline at both ends of the range that
    both curves cover."""
    texts = []
    for depth, rows in means.groupby("depth"):
        said = [text for row in rows.to_dict("records") if (text := _ends(row, by_target))]
        if said:
            start = f"{depth_name(depth)}, from" if depth >= 0 else "From"
            texts.append(
                f"{start} the easiest value that both reached to the hardest: {listed(said)}."
            )
    return texts


def _ends(row: Mapping[str, Any], by_target: pd.DataFrame) -> str:
    """Say the ratio at both ends of the range that both curves cover; empty where they share
    none."""
    same = [by_target[name] == row[name] for name in ("depth", "variant", "task", "metric")]
    targets = by_target[pd.concat(same, axis=1).all(axis=1)]
    if targets.empty:
        return ""
    ends = (
        targets.sort_values("target", ascending=row["metric"] == "accuracy")
        .iloc[[0, -1]]
        .to_dict("records")
    )
    unit = "" if row["metric"] == "accuracy" else " bits per byte"
    said = [
        f"{ratio(end['factor'])}× at"
        f" {number(end['target'], 2) if unit else percent(end['target'])}{unit}"
        for end in ends
    ]
    return f"{row['variant']} {' to '.join(said)}"
