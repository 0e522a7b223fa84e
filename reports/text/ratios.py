"""Choose the ratio of each model that is the answer, and put ratios into words.

Rows are those of `StudyData.ratios`, in their order. Nothing is computed here: every number is one
of the view `token_ratios`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import VALIDATION
from dreamer_study.reports.text.names import task_name
from dreamer_study.reports.text.numbers import THIN, interval, percent, span, times
from dreamer_study.sql.names import AT_LEAST, AT_MOST, AVERAGE

Row = Mapping[str, Any]

LEAST = "≥"  # before a lower bound
MOST = "≤"

SIGNIFICANT = "significant"
ONE_SEED = "one seed"  # a ratio without an interval
NOT_TESTED = "not tested"  # a single task beside an average
BOUND = "bound"  # no ratio, but a bound
NOT_SIGNIFICANT = "not significant"
ONE_CHECKPOINT = "one checkpoint"  # less than that apart
NOTHING_COMMON = "nothing in common"


def read_for(rows: pd.DataFrame) -> pd.DataFrame:
    """Choose the rows that a study is read for: averages and held-out losses, else the tasks."""
    is_headline = rows["task"].isin([AVERAGE, VALIDATION])
    return rows[is_headline] if is_headline.any() else rows


def leading(rows: pd.DataFrame) -> pd.DataFrame:
    """Choose one row for each depth and variant: the first one of the view that says something.

    A model whose curve has nothing in common with the baseline's has its first row; a model without
    a curve, or whose ratios are outdated, has none. Of several tasks without an average none leads.
    """
    rows = read_for(rows)
    if not rows["task"].isin([AVERAGE, VALIDATION]).any() and rows["task"].nunique() > 1:
        return rows[:0]
    rows = rows[rows["seeds"].notna() & ~rows["outdated"].astype(bool)]
    says_something = rows[["ratio", "low", "high"]].notna().any(axis=1) | rows["in_advance"]
    in_order = pd.concat([rows[says_something], rows[~says_something]])
    return in_order.drop_duplicates(["depth", "variant"]).sort_index()


def finding(row: Row) -> str:
    """Tell what is known of a ratio: one of the constants of this module."""
    if row["within_checkpoint"]:
        return ONE_CHECKPOINT
    if pd.notna(row["significant"]):
        return SIGNIFICANT if row["significant"] else NOT_SIGNIFICANT
    if pd.notna(row["ratio"]):
        return ONE_SEED if row["seeds"] < 2 else NOT_TESTED
    has_bound = pd.notna(row["low"]) or pd.notna(row["high"])
    return BOUND if has_bound else NOTHING_COMMON


def finding_in_short(row: Row) -> str:
    """Say what is known of a ratio in a few words, with the side to which a decaying rate errs.

    Example: `significant; at most, as the rate decays`.
    """
    words = {
        ONE_CHECKPOINT: "less than one checkpoint apart",
        BOUND: "a bound alone",
    }
    kind = finding(row)
    texts = [words.get(kind, kind)]
    if row["in_advance"]:
        texts.append("fixed in advance")
    if pd.notna(row["decay_bound"]):
        texts.append(f"{row['decay_bound']}, as the rate decays")
    return "; ".join(texts)


def ratio_or_bound(row: Row) -> tuple[str, float]:
    """Return the sign of a bound, which a ratio has not, and the value; NaN for neither."""
    for name, sign in (("ratio", ""), ("low", LEAST), ("high", MOST)):
        if pd.notna(row[name]):
            return sign, row[name]
    return "", float("nan")


def bound_of(row: Row) -> str:
    """Tell which bound `best_estimate` is: 'at least', 'at most', or empty for a ratio.

    A ratio at scores that were reached while the learning rate decays is a bound, too.
    """
    sign, _ = ratio_or_bound(row)
    if sign:
        return AT_LEAST if sign == LEAST else AT_MOST
    return row["decay_bound"] if pd.notna(row["decay_bound"]) else ""


def best_estimate(row: Row) -> float:
    """Return the ratio, or without one the bound; NaN for neither."""
    return ratio_or_bound(row)[1]


def short_ratio(row: Row) -> str:
    """Format a ratio for a table: `1.67x`, or a bound, `≥ 5.54x`."""
    sign, value = ratio_or_bound(row)
    return f"{sign}{THIN}{times(value)}" if sign else times(value)


def short_interval(row: Row) -> str:
    """Format the 95 % CI of a ratio for a table; empty where a bound stands for the ratio."""
    if pd.isna(row["ratio"]):
        return ""
    if row["seeds"] < 2:
        return "none: one seed"
    return interval(row) or "none"


def p_value(value: float) -> str:
    """Format a p-value: `p 0.2`, `p < 0.001`; near 0.05 with two digits, `p 0.046`."""
    if value < 0.001:
        return "p < 0.001"
    decides = 0.045 <= value < 0.055
    return f"p {value:.2g}" if decides else f"p {value:.1g}"


def yes_or_no(value: Any) -> str:
    """Say a truth value; empty where that is unknown."""
    if pd.isna(value):
        return ""
    return "yes" if value else "no"


def scores(row: Row) -> str:
    """Format the scores that a ratio is over, the easiest first: `46 to 53 %`, `1.83 to 1.62`."""
    if pd.isna(row["score_high"]):
        return ""
    ends = [row["score_low"], row["score_high"]]
    if row["metric"] == "loss":
        ends.reverse()
    return span(*ends, row["metric"])


def at_unlike_scores(rows: pd.DataFrame) -> bool:
    """Tell whether ratios of one measure are over different scores."""
    return len({scores(row) for row in rows.to_dict("records")} - {""}) > 1


def score(value: float, metric: str) -> str:
    """Format one score: `74.7 %`, or a loss, `0.92`."""
    return percent(value).replace("%", " %") if metric == "accuracy" else f"{value:.2f}"


def goal(row: Row, only_task: bool) -> str:
    """Say which scores a ratio is over: `accuracies of 46 to 53 %`, `a loss of 3.28`.

    A task is named unless the study has the `only_task`.
    """
    of_accuracy = row["metric"] == "accuracy"
    is_one = row["score_low"] == row["score_high"]
    if is_one:
        noun = "an accuracy" if of_accuracy else "a loss"
    else:
        noun = "accuracies" if of_accuracy else "losses"
    fixed = ", fixed in advance" if row["in_advance"] else ""
    return f"{noun}{_on(row['task'], only_task)} of {scores(row)}{fixed}"


def measure(row: Row, only_task: bool) -> str:
    """Name what a ratio is of: `average accuracy`, `loss on held-out documents`."""
    average = "average " if row["task"] == AVERAGE and not only_task else ""
    return f"{average}{row['metric']}{_on(row['task'], only_task)}"


def _on(task: str, only_task: bool) -> str:
    if task == VALIDATION:
        return " on held-out documents"
    if task == AVERAGE or only_task:
        return ""
    return f" on {task_name(task)}"


def weaknesses(row: Row, *, rates_tuned: bool | None) -> list[str]:
    """Name in a few words each what makes a ratio weak.

    `rates_tuned`: whether the learning rate of the model was; None where rates are unknown.
    """
    kind = finding(row)
    texts = {
        "less than one checkpoint apart, no finding": kind == ONE_CHECKPOINT,
        "not significant": kind == NOT_SIGNIFICANT,
        "one seed": pd.notna(row["seeds"]) and row["seeds"] < 2,
        "near chance": row["near_chance"],
        f"the true ratio is {row['decay_bound']} this one": pd.notna(row["decay_bound"]),
        "checkpoints taken before the learning rate decays": row["before_decay"],
        "one task": row["one_task"] and row["task"] == AVERAGE,
        f"depends on {row['depends_on']}": kind == SIGNIFICANT and pd.notna(row["depends_on"]),
        "cut short": row["cut_short"],
        "learning rate not searched here": rates_tuned is False,
    }
    return [text for text, holds in texts.items() if holds]
