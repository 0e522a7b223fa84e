"""Put mean factors into words: how many times fewer training tokens for equal accuracy, or for equal loss.

Every sentence has one unit: "times fewer tokens" or "times as many tokens", and the ends of its interval in that unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports.data import VALIDATION, without_baseline
from reports.text.names import measure_name
from reports.text.numbers import THIN, counted, fine_factor, fine_interval, number, percent
from sql.names import AVERAGE


@dataclass(frozen=True)
class Finding:
    """One factor in words.

    `figure` and `unit` are for large type ("2.4×", "fewer training tokens"), `sentence` says the factor or what it is a
    mean over, and `doubts` have to be shown beside the number.
    """

    variant: str
    depth: int
    figure: str
    unit: str
    interval: str
    sentence: str
    doubts: tuple[str, ...]


def headline(rows: pd.DataFrame) -> pd.DataFrame:
    """Choose one row for each depth and variant, where a study can tell most: the average accuracy, else a loss.

    Where the average accuracy is within its noise, or the curves have no accuracy in common, the average loss of the
    right answers stands in, then the loss on the validation documents. A model without any factor has no row. `rows`
    are those of `StudyData.mean_factors`.
    """
    chosen = comparisons(rows).sort_values("within_noise", kind="stable")
    return chosen.drop_duplicates(["depth", "variant"])


def comparisons(rows: pd.DataFrame) -> pd.DataFrame:
    """Choose the rows of the measures that a headline may have, the primary measure's first."""
    places = {("accuracy", AVERAGE): 0, ("loss", AVERAGE): 1, ("loss", VALIDATION): 2}
    chosen = rows.assign(place=[places.get(key) for key in zip(rows["metric"], rows["task"], strict=True)])
    chosen = without_baseline(chosen[chosen["place"].notna() & chosen["factor"].notna()])
    return chosen.sort_values("place", kind="stable").drop(columns="place")


def mean_finding(row: Mapping[str, Any]) -> Finding:
    """Put a row of `StudyData.mean_factors` into words.

    Example: a factor 0.80 gives the figure "0.80×" and the unit "that is, 1.25 times as many training tokens".
    """
    value, doubts = row["factor"], []
    span = f"95% interval {fine_interval(row)}" if fine_interval(row) else ""
    if row["seeds"] < 2:
        doubts.append("A model has one seed: nothing says what another would have given, so there is no interval.")
    elif not span:
        doubts.append("There is no interval for this factor.")
    if row["within_noise"]:
        doubts.append("What both models reached is hardly more than noise: the factor says little.")
    unit = "fewer training tokens" if value >= 1 else f"that is, {fine_factor(1 / value)} times as many training tokens"
    if row["bounded"]:
        unit = f"at most: {unit}" if value >= 1 else unit.replace("that is, ", "that is, at least ")
    return Finding(
        variant=row["variant"],
        depth=int(row["depth"]),
        figure=f"{bounded_factor(row)}×",
        unit=unit,
        interval=span,
        sentence=f"{never_reached(row)}." if row["bounded"] else _details(row),
        doubts=tuple(doubts),
    )


def bounded_factor(row: Mapping[str, Any]) -> str:
    """Format the factor of a row of `StudyData.mean_factors`: 1.24, or ≤ 0.67 where it is a bound."""
    return f"≤{THIN}" * bool(row["bounded"]) + fine_factor(row["factor"])


def never_reached(row: Mapping[str, Any]) -> str:
    """Say what a variant never reached, and the bound of its factor.

    Example: "LA-1 never reached 56.0% to 77.0% in average accuracy; over LA’s whole range it needs at least 1.50 times
    as many training tokens (95% interval 1.40 to 1.70)".
    """
    more = row["bound"] < 1
    ends = {"low": row["bound_low"], "high": row["bound_high"]}
    span = fine_interval(ends, inverted=more)
    told = (
        f"at least {fine_factor(1 / row['bound'])} times as many"
        if more
        else f"at most {fine_factor(row['bound'])} times fewer"
    )
    return (
        f"{row['variant']} never reached {_from_to(row, 'missed')} in {measure_name(row)}; over {row['baseline']}’s "
        f"whole range it needs {told} training tokens ({f'95% interval {span}' if span else 'no interval'})"
    )


def _details(row: Mapping[str, Any]) -> str:
    """Say over which values the factor is a mean, and of how many seeds."""
    return (
        f"The mean over every {measure_name(row).split(' of ')[0]} from {_from_to(row, 'range')}, which both models "
        f"reached; {counted(int(row['seeds']), 'seed')} or more of each model."
    )


def _from_to(row: Mapping[str, Any], name: str) -> str:
    """Say from where to where a range of accuracies, or of losses, goes as models learn."""
    if row["metric"] == "accuracy":
        return f"{percent(row[f'{name}_low'])} to {percent(row[f'{name}_high'])}"
    return f"{number(row[f'{name}_high'], 2)} to {number(row[f'{name}_low'], 2)} bits per byte"
