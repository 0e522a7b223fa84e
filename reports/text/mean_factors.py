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
from reports.text.numbers import counted, fine_factor, fine_interval, number, percent
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
    places = {("accuracy", AVERAGE): 0, ("loss", AVERAGE): 1, ("loss", VALIDATION): 2}
    chosen = rows.assign(place=[places.get(key) for key in zip(rows["metric"], rows["task"], strict=True)])
    chosen = without_baseline(chosen[chosen["place"].notna() & chosen["factor"].notna()])
    chosen = chosen.assign(place=chosen["place"] + len(places) * chosen["within_noise"])
    return chosen.sort_values("place", kind="stable").drop_duplicates(["depth", "variant"]).drop(columns="place")


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
    return Finding(
        variant=row["variant"],
        depth=int(row["depth"]),
        figure=f"{fine_factor(value)}×",
        unit=unit,
        interval=span,
        sentence=_details(row),
        doubts=tuple(doubts),
    )


def _details(row: Mapping[str, Any]) -> str:
    """Say over which values the factor is a mean, and of how many seeds."""
    if row["metric"] == "accuracy":
        low, high = percent(row["range_low"]), percent(row["range_high"])
    else:
        low, high = (f"{number(row[end], 2)} bits per byte" for end in ("range_high", "range_low"))
    return (
        f"The mean over every {measure_name(row).split(' of ')[0]} from {low} to {high}, which both models reached; "
        f"{counted(int(row['seeds']), 'seed')} or more of each model."
    )
