"""Compute the arrows between the curves of the answer, which are as long as the ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from dreamer_study.reports.figures.ratios import label
from dreamer_study.reports.figures.strip import ANSWER
from dreamer_study.reports.text.names import measure_name, owner
from dreamer_study.reports.text.numbers import times, tokens

APART = 0.08  # of the range of the curves, between the heights of two arrows
PLACES = 41  # within the scores of an answer, of which one is the height of its arrow
MANY_ARROWS = 5  # where there are more variants, their arrows would hide the curves
Arrow = tuple[float, float, float, bool]  # height, tail, tip, and whether dashed: a bound
NO_ARROW: Arrow = (math.nan, math.nan, math.nan, False)
ARROW = ["variant", "value", "baseline_tokens", "tokens", "dashed"]


@dataclass(frozen=True)
class Grid:
    """The tokens of all models of a depth at the same scores: rows of `tokens_at_scores`."""

    rows: pd.DataFrame
    baseline: str

    @cached_property
    def scores(self) -> pd.Series:
        """Return the scores by step, the easiest first."""
        return self.rows.drop_duplicates("step").set_index("step")["score"].sort_index()

    def in_words(self, value: float) -> str:
        """Say a score with as many decimals as tell the scores of two steps apart."""
        of_accuracy = self.rows["metric"].iloc[0] == "accuracy"
        scale, fewest, unit = (100, 1, " %") if of_accuracy else (1, 2, "")
        step = scale * abs(self.scores.iloc[1] - self.scores.iloc[0])
        decimals = max(fewest, math.ceil(-math.log10(step)))
        return f"{scale * value:.{decimals}f}{unit}"

    def log_tokens(self, variant: str, scores: np.ndarray) -> np.ndarray:
        """Return the log tokens at which a variant first had scores, by the steps on both sides.

        Scores between the last step that the variant reached and its best count as that step. NaN
        where the variant reached none.
        """
        own = self._reached(variant)
        if own.empty:
            return np.full(len(scores), math.nan)
        return np.interp(self._steps(scores), own["step"], np.log(own["tokens"]))

    def score_at(self, variant: str, count: float) -> float:
        """Return the score that a variant had at a count of tokens; NaN without the variant."""
        own = self._reached(variant)
        if own.empty:
            return math.nan
        return float(np.interp(math.log(count), np.log(own["tokens"]), own["score"]))

    def _reached(self, variant: str) -> pd.DataFrame:
        own = self.rows[(self.rows["variant"] == variant) & self.rows["tokens"].notna()]
        return own.sort_values("step")

    def _steps(self, scores: np.ndarray) -> np.ndarray:
        first, last = self.scores.iloc[[0, -1]]
        return (scores - first) / (last - first) * self.scores.index[-1]


def is_of(row: Mapping[str, Any], first: Mapping[str, Any]) -> bool:
    return (row["metric"], row["task"]) == (first["metric"], first["task"])


def answer_in_words(row: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """Say a ratio: `DR 1.67x (1.35 to 2.08)`; of another measure than the panel's with its name."""
    if pd.isna(row["shown"]):
        return f"{row['variant']}: {label(row)}"
    of_other = "" if is_of(row, first) else f" in {measure_name(row)}"
    return f"{row['variant']} {label(row)}{of_other}"


def of_answers(
    rows: pd.DataFrame, first: Mapping[str, Any], grid: Grid, curve: pd.DataFrame
) -> pd.DataFrame:
    """Return an arrow for each variant, as long as the ratio or its bound, and a label.

    Without an arrow the label is there.
    """
    last_tokens = curve.groupby("variant")["tokens"].max()
    arrows = []
    for row in rows.to_dict("records"):
        arrow = NO_ARROW
        if is_of(row, first) and len(rows) <= MANY_ARROWS:
            arrow = _arrow(row, grid, last_tokens)
        arrows.append((row["variant"], *arrow, answer_in_words(row, first)))
    answers = pd.DataFrame(arrows, columns=[*ARROW, "label"])
    answers = answers.assign(place=ANSWER, line=range(len(answers)))
    of_first = rows[[is_of(row, first) for row in rows.to_dict("records")]]
    return _apart(answers, of_first, curve)


def _apart(answers: pd.DataFrame, rows: pd.DataFrame, curve: pd.DataFrame) -> pd.DataFrame:
    """Move arrows of nearly one height apart, the hardest score first, towards easier ones.

    Both models of an arrow have easier scores too. All arrows stay near the scores of the answers,
    so that none seems to be where no curve is.
    """
    of_all_scores = rows["score_high"].max() - rows["score_low"].min()
    of_curves = curve["value"].max() - curve["value"].min()
    step = np.nanmin([APART * of_curves, of_all_scores / len(answers)])
    easier = 1 if rows["metric"].iloc[0] == "loss" else -1
    answers = answers.assign(value=easier * answers["value"])
    answers = answers.sort_values("value", ignore_index=True)
    steps = step * np.arange(len(answers))
    moved = (answers["value"] - steps).cummax() + steps
    return answers.assign(value=easier * moved)


def _arrow(row: Mapping[str, Any], grid: Grid, last_tokens: pd.Series) -> Arrow:
    """Return the arrow of an answer: of its ratio, or of its bound."""
    if pd.notna(row["ratio"]):
        return _arrow_of_ratio(row, grid)
    if pd.notna(row["low"]):  # the variant never had the score, with all its tokens
        tip = float(last_tokens.get(row["variant"], math.nan))
        tail = tip / row["low"]
        return grid.score_at(grid.baseline, tail), tail, tip, True
    if pd.notna(row["high"]):  # the baseline never had the score
        tail = float(last_tokens.get(grid.baseline, math.nan))
        tip = tail * row["high"]
        return grid.score_at(row["variant"], tip), tail, tip, True
    return NO_ARROW


def _arrow_of_ratio(row: Mapping[str, Any], grid: Grid) -> Arrow:
    """Return an arrow that begins at the baseline's curve and is exactly as long as the ratio.

    Its height is that among the scores of the answer at which the ratio is nearest to their mean.
    """
    heights = np.linspace(row["score_low"], row["score_high"], PLACES)
    tails = grid.log_tokens(grid.baseline, heights)
    apart = np.abs(grid.log_tokens(row["variant"], heights) - tails - math.log(row["ratio"]))
    if np.isnan(apart).all():
        return NO_ARROW
    nearest = int(np.nanargmin(apart))
    tail = math.exp(tails[nearest])
    return float(heights[nearest]), tail, tail * row["ratio"], bool(row["bound"])


def of_scores(grid: Grid) -> pd.DataFrame:
    """Return an arrow and a label for each model and score of the grid.

    Without an arrow the label is there: of the baseline, and of what was never reached.
    """
    rows = grid.rows
    own = rows.loc[rows["variant"] == grid.baseline, ["step", "tokens", "at_first"]]
    own = own.rename(columns={"tokens": "baseline_tokens", "at_first": "baseline_at_first"})
    arrows = rows.merge(own, how="left", on="step").sort_values("step", kind="stable")
    labels = [_tokens_in_words(row, grid) for row in arrows.to_dict("records")]
    arrows = arrows.assign(
        label=labels,
        dashed=arrows["at_first"] | arrows["baseline_at_first"].eq(True),
        value=arrows["score"],
        place=arrows["step"] + ANSWER + 1,
        line=arrows.groupby("step").cumcount(),
    )
    # An arrow needs two ends: nobody draws one that lacks an end, or from a model to itself.
    arrows.loc[arrows["variant"] == grid.baseline, "baseline_tokens"] = math.nan
    return arrows[[*ARROW, "label", "place", "line"]]


def _tokens_in_words(row: Mapping[str, Any], grid: Grid) -> str:
    """Say what a model took to a score: `DR 734K, 1.69x LA’s`, or `DR: never (best 52.8 %)`."""
    if pd.isna(row["tokens"]):
        return f"{row['variant']}: never (best {grid.in_words(row['best'])})"
    most = "at most " if row["at_first"] else ""
    text = f"{row['variant']} {most}{tokens(row['tokens'])}"
    if row["variant"] == grid.baseline or pd.isna(row["baseline_tokens"]):
        return text
    if row["at_first"] or row["baseline_at_first"]:
        return text  # a ratio of bounds says little
    return f"{text}, {times(row['tokens'] / row['baseline_tokens'])} {owner(grid.baseline)}’s"
