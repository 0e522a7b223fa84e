"""Choose the mean factors that lead, and put those of a variant that stopped short into words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import VALIDATION, without_baseline
from dreamer_study.reports.text.names import measure_name
from dreamer_study.reports.text.numbers import THIN, as_many, interval, number, percent, ratio
from dreamer_study.sql.names import AVERAGE


def headline(rows: pd.DataFrame) -> pd.DataFrame:
    """Choose one row for each depth and variant: of the measure by which the study decides most.

    That is the average accuracy, else a loss. Where the average accuracy is within its noise, or
    the curves have no accuracy in common, the average loss of the right answers stands in, then the
    loss on the validation documents, or on the only task. A model without any factor has no row.
    `rows` are those of `StudyData.mean_factors`.
    """
    chosen = comparisons(rows).sort_values("within_noise", kind="stable")
    return chosen.drop_duplicates(["depth", "variant"])


def comparisons(rows: pd.DataFrame) -> pd.DataFrame:
    """Choose the rows of the measures that a headline may have, the primary measure's first."""
    ranks = {}
    if rows["task"].nunique() == 1:
        ranks["loss", rows["task"].iloc[0]] = 3  # unless it is one of the following
    ranks |= {("accuracy", AVERAGE): 0, ("loss", AVERAGE): 1, ("loss", VALIDATION): 2}
    measures = zip(rows["metric"], rows["task"], strict=True)
    ranked = rows.assign(rank=[ranks.get(measure) for measure in measures])
    chosen = without_baseline(ranked[ranked["rank"].notna() & ranked["factor"].notna()])
    return chosen.sort_values("rank", kind="stable").drop(columns="rank")


def bounded_ratio(row: Mapping[str, Any]) -> str:
    """Format the ratio of a row of `StudyData.mean_factors`: 1.24, or ≥ 1.50 for a bound."""
    number = ratio(row["factor"])
    return f"≥{THIN}{number}" if row["bounded"] else number


def never_reached(row: Mapping[str, Any]) -> str:
    """Give the bound of a variant's ratio, and what the baseline reached and the variant did not.

    Example: "LA-1 needs at least 1.50 times as many training tokens over LA’s whole range (95%
    interval 1.40 to 1.70): in average accuracy LA reached 77.0%, LA-1 56.0%".
    """
    span = interval({"low": row["bound_low"], "high": row["bound_high"]})
    if row["metric"] == "accuracy":
        best = percent(row["missed_high"])
        own = percent(row["missed_low"])
        no_better = "no more than"
    else:
        best = f"{number(row['missed_low'], 2)} bits per byte"
        own = number(row["missed_high"], 2)
        no_better = "no less than"
    # What is missed then begins where the baseline starts, not at the variant's best.
    if row.get("covered") == 0:
        own = f"{no_better} {own}"
    return (
        f"{row['variant']} needs at least {as_many(row['bound'])} training tokens over"
        f" {row['baseline']}’s whole range ({f'95% interval {span}' if span else 'no interval'}):"
        f" in {measure_name(row)} {row['baseline']} reached {best}, {row['variant']} {own}"
    )
