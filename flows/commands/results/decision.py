"""Decide whether a ratio is below a number, for the exit status of `dreamer factors --below`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.reports.text.numbers import interval, times
from dreamer_study.reports.text.ratios import leading
from dreamer_study.sql.names import AVERAGE

BELOW = "below"
ABOVE = "above"
NOT_YET_KNOWN = "not yet known"
STATUSES = {BELOW: 0, ABOVE: 3, NOT_YET_KNOWN: 4}
IN_WORDS = {BELOW: "yes", ABOVE: "no", NOT_YET_KNOWN: "not yet known"}


@dataclass(frozen=True)
class Decision:
    """The side of `limit` on which the interval from `low` to `high` is; an open end is None."""

    limit: float
    variant: str
    task: str
    metric: str
    low: float | None
    high: float | None
    verdict: str  # one of STATUSES

    @property
    def status(self) -> int:
        """The exit status of the verdict."""
        return STATUSES[self.verdict]

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        ends = interval({"low": self.low, "high": self.high}) or "no interval"
        return (
            f"{self.variant} on {self.task} ({self.metric}): {ends}; below {times(self.limit)}:"
            f" {IN_WORDS[self.verdict]}"
        )


def check_asked(below: float | None, variant: str | None, task: str | None) -> None:
    """Raise InputError for an impossible limit, and for options that need --below."""
    if below is None:
        for option, value in (("--variant", variant), ("--task", task)):
            if value is not None:
                raise InputError(f"{option} {value} belongs to --below; give --below too")
    elif not 0 < below < math.inf:
        raise InputError(f"--below is {below:g}, but a ratio is a number above 0")


def decide(ratios: pd.DataFrame, below: float, variant: str | None, task: str | None) -> Decision:
    """Decide whether the interval of a ratio is below a number: all of it, none, or not yet known.

    `ratios` are rows of `token_ratios`. Without `variant` there must be one; without `task` the
    row is that of the answer: the average, or the only task. Accuracy comes before loss. Raises
    InputError where it is unclear which row is meant, and where there is none.
    """
    rows = _of_task(_of_variant(ratios, variant), task)
    row = rows.iloc[0]
    low, high = (None if pd.isna(row[end]) else float(row[end]) for end in ("low", "high"))
    verdict = NOT_YET_KNOWN
    if high is not None and high <= below:
        verdict = BELOW
    elif low is not None and low > below:
        verdict = ABOVE
    return Decision(below, row["variant"], row["task"], row["metric"], low, high, verdict)


def _of_variant(ratios: pd.DataFrame, variant: str | None) -> pd.DataFrame:
    variants = list(dict.fromkeys(ratios["variant"]))
    if variant is None and len(variants) > 1:
        raise InputError(f"--below needs --variant NAME, one of {', '.join(variants)}")
    if variant is not None and variant not in variants:
        baseline = ratios["baseline"].iloc[0]
        fault = "is the baseline" if variant == baseline else "is none of the variants"
        raise InputError(
            f"--variant {variant} {fault}{nearest(variant, variants)}; the variants compared with"
            f" {baseline}: {', '.join(variants)}"
        )
    return ratios if variant is None else ratios[ratios["variant"] == variant]


def _of_task(ratios: pd.DataFrame, wanted: str | None) -> pd.DataFrame:
    """Choose the rows of a task, those of accuracy first; by default those that are the answer."""
    tasks = list(dict.fromkeys(ratios["task"]))
    if wanted is None:
        rows = leading(ratios)
        if rows.empty:  # nothing is known of the average yet
            rows = ratios[ratios["task"] == AVERAGE]
        if rows.empty:
            raise InputError(
                f"--below: there is no average; --task NAME, one of {', '.join(tasks)}"
            )
        return rows
    task, _, metric = wanted.rpartition(":")
    if wanted in tasks or not task:
        task, metric = wanted, ""
    rows = ratios[ratios["task"] == task].sort_values("metric")
    if metric:
        rows = rows[rows["metric"] == metric]
    if rows.empty:
        known = sorted({f"{row.task}:{row.metric}" for row in ratios.itertuples()})
        raise InputError(
            f"--task {wanted}: there are no such curves{nearest(wanted, [*tasks, *known])}; there"
            f" are {', '.join(known)}"
        )
    return rows
