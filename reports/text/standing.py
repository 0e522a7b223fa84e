"""Say how sure the comparisons are that a study is read for.

Which are decided, which decisions depend on one task, and where on the curve a model is ahead.
"""

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
    """Return a text for each measure of the headline, the primary first.

    A text says what is decided, and what would be detectable.
    """
    texts = []
    for _, rows in comparisons(data.mean_factors).groupby(["metric", "task"], sort=False):
        parts = [
            _corrected(rows[rows["p"].notna()]),
            *(_hanging(row, data.without_one) for row in rows.to_dict("records")),
            _detectable(rows["detectable"].dropna()),
        ]
        parts = [part for part in parts if part]
        if parts:
            name = measure_name(rows.iloc[0])
            role = "" if texts else _role(name)
            texts.append(f"{name[0].upper()}{name[1:]}{role}: {'; '.join(parts)}.")
    return texts


def _role(name: str) -> str:
    """Say of the first measure whether it is the primary one, or stands in for that."""
    primary = measure_name({"metric": "accuracy", "task": AVERAGE})
    if name == primary:
        return ", the primary measure"
    return f", in place of {primary}, the primary one"


def _detectable(factors: pd.Series) -> str:
    """Say the smallest effects that such a study detects, from the least to the greatest."""
    if factors.empty:
        return ""
    # A detectable factor is said as a ratio above 1, which formatting turns upside down again.
    effects = dict.fromkeys(ratio(1 / factor) for factor in (factors.min(), factors.max()))
    return f"minimum detectable effect: {' to '.join(effects)} times as many"


def _corrected(tested: pd.DataFrame) -> str:
    """Say which comparisons are decided with all of the headline's taken together.

    Empty where none is tested.
    """
    if tested.empty:
        return ""
    together = counted(int(tested["comparisons"].iloc[0]), "comparison")
    decided = [
        model_name(row)
        for row in tested[tested["decided_adjusted"].astype(bool)].to_dict("records")
    ]
    return f"decided after correction for {together}: {listed(decided) or 'none'}"


def _hanging(row: Mapping[str, Any], without_one: pd.DataFrame) -> str:
    """Say what the average would be without each family of tasks on which its decision depends.

    Empty where it depends on none.
    """
    if pd.isna(row["hangs_on"]):
        return ""
    same = [without_one[name] == row[name] for name in ("depth", "variant", "baseline", "metric")]
    agrees = without_one["decided"] & ((without_one["factor"] > 1) == (row["factor"] > 1))
    others = without_one[pd.concat(same, axis=1).all(axis=1) & ~agrees].to_dict("records")
    averages = [f"without {task_name(other['left_out'])} {_ratio(other)}" for other in others]
    return f"the decision on {model_name(row)} hangs on one task: {listed(averages)}"


def _ratio(row: Mapping[str, Any]) -> str:
    """Say a ratio with its interval."""
    if pd.isna(row["factor"]):
        return "nothing in common"
    text = as_many(row["factor"])
    span = interval(row)
    return f"{text} ({span})" if span else text


def both_ends(means: pd.DataFrame, by_target: pd.DataFrame) -> list[str]:
    """Say for each depth the ratio of each model of the headline at both ends of the curve.

    The ends are those of the range that both curves cover.
    """
    texts = []
    for depth, rows in means.groupby("depth"):
        models = [_ends(row, by_target) for row in rows.to_dict("records")]
        models = [text for text in models if text]
        if models:
            start = f"{depth_name(depth)}, from" if depth >= 0 else "From"
            texts.append(
                f"{start} the easiest value that both reached to the hardest: {listed(models)}."
            )
    return texts


def _ends(row: Mapping[str, Any], by_target: pd.DataFrame) -> str:
    """Say the ratio at both ends of the range that both curves cover; empty where that is none."""
    same = [by_target[name] == row[name] for name in ("depth", "variant", "task", "metric")]
    targets = by_target[pd.concat(same, axis=1).all(axis=1)]
    if targets.empty:
        return ""
    of_accuracy = row["metric"] == "accuracy"
    from_easiest = targets.sort_values("target", ascending=of_accuracy)
    ends = []
    for end in from_easiest.iloc[[0, -1]].to_dict("records"):
        target = end["target"]
        value = percent(target) if of_accuracy else f"{number(target, 2)} bits per byte"
        ends.append(f"{ratio(end['factor'])}× at {value}")
    return f"{row['variant']} {' to '.join(ends)}"
