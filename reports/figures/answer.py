"""Draw the answer: the average curves of a depth, with arrows between them.

An arrow is as long as the ratio of tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.data import baseline_of
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.ratios import label, with_bounds
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style, ordered, present
from dreamer_study.reports.text.names import depth_name, measure_label, measure_name
from dreamer_study.reports.text.numbers import listed, times, tokens
from dreamer_study.reports.text.ratios import leading, score

HEIGHT = 250
APART = 0.08  # of the range of the curves, between the heights of two arrows
PLACES = 41  # within the scores of an answer, of which one is the height of its arrow
# Arrow heads to more tokens, and to fewer: the tip is the end of the arrow.
HEADS = ("M0,0L-1.6,-0.9V0.9Z", "M0,0L1.6,-0.9V0.9Z")
ANSWER = 0  # the left end of the slider; its other places are the scores of the grid
LINE = 17  # pixels between two labels
Arrow = tuple[float, float, float, bool]  # height, tail, tip, and whether dashed: a bound
NO_ARROW: Arrow = (math.nan, math.nan, math.nan, False)
ARROW = ["variant", "value", "baseline_tokens", "tokens", "dashed"]


def answer(
    ratios: pd.DataFrame,
    accuracies: pd.DataFrame,
    losses: pd.DataFrame,
    at_scores: pd.DataFrame,
    styles: Mapping[str, Style],
) -> Figure | None:
    """Draw the curve of the answer's measure (y) against training tokens (x).

    A panel for each depth. `ratios` has the rows of `StudyData.ratios`, `accuracies` and `losses`
    those of the mean curves, `at_scores` those of the view `tokens_at_scores`. A slider moves the
    arrows from the answer to one score of all models. None without an answer.
    """
    accuracies = accuracies.rename(columns={"accuracy": "value"}).assign(metric="accuracy")
    curves = pd.concat([accuracies, losses.assign(metric="loss")])
    shown = present(styles, curves)
    panels = []
    for depth, rows in ordered(with_bounds(leading(ratios)), styles).groupby("depth"):
        first = _most_common_measure(rows)
        keys = pd.DataFrame([first])[["depth", "task", "metric"]]
        curve = curves.merge(keys)
        grid = Grid(at_scores.merge(keys), first["baseline"])
        name = measure_label(first)
        at_depth = depth_name(depth).lower()
        description = f"{name} against training tokens at {at_depth}: {_in_words(rows, first)}"
        arrows = pd.concat([_answers(rows, first, grid, curve), _at_scores(grid)])
        # The panel's keys name no task and no measure, so that the toolbar's choice of a benchmark
        # does not hide it.
        drawn = _chart(curve, arrows, _missed(rows.merge(keys), curve), grid, shown, first)
        panels.append(panel(f"{name}, {at_depth}", description, drawn, depth=depth))
    baseline = baseline_of(ratios)
    caption = (
        "Each marker is a checkpoint, the mean over its seeds. Arrows lead from"
        f" {baseline}, the baseline, to a variant at equal height, and are as long as the ratio;"
        f" dashed ones are bounds. Dashed upright: what {baseline} reached and a variant did not."
        " In brackets 95 % confidence intervals."
    )
    return figure("answer", "The answer", caption, panels, shown)


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


def _most_common_measure(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the first row of the measure that the answers of most models are of.

    A panel has the curves of one measure; other models are in words beside them.
    """
    by_measure = rows.groupby(["metric", "task"], sort=False)["variant"]
    largest = rows[by_measure.transform("size") == by_measure.size().max()]
    return largest.iloc[0].to_dict()


def _is_of(row: Mapping[str, Any], first: Mapping[str, Any]) -> bool:
    return (row["metric"], row["task"]) == (first["metric"], first["task"])


def _answer_in_words(row: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """Say a ratio: `DR 1.67x (1.35 to 2.08)`; of another measure than the panel's with its name."""
    if pd.isna(row["shown"]):
        return f"{row['variant']}: {label(row)}"
    of_other = "" if _is_of(row, first) else f" in {measure_name(row)}"
    return f"{row['variant']} {label(row)}{of_other}"


def _in_words(rows: pd.DataFrame, first: Mapping[str, Any]) -> str:
    """Say the ratios, and which variants did not reach the baseline's best."""
    records = rows.to_dict("records")
    text = f"{listed([_answer_in_words(row, first) for row in records])}."
    short = _short(rows[[_is_of(row, first) for row in records]])
    if short.empty:
        return text
    best = f"{first['baseline']}’s best, {score(first['baseline_best'], first['metric'])},"
    return f"{text} {best} was never reached by {listed(list(short['variant']))}."


def _short(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the variants that did not reach the baseline's best."""
    return rows[~rows["reached"].astype("boolean").fillna(True).astype(bool)]


def _missed(rows: pd.DataFrame, curve: pd.DataFrame) -> pd.DataFrame:
    """Return from which to which score a variant stayed below the baseline, at its last tokens."""
    last_tokens = curve.groupby("variant")["tokens"].max().reset_index()
    return _short(rows)[["variant", "best", "baseline_best"]].merge(last_tokens)


def _answers(
    rows: pd.DataFrame, first: Mapping[str, Any], grid: Grid, curve: pd.DataFrame
) -> pd.DataFrame:
    """Return an arrow for each variant, as long as the ratio or its bound, and a label.

    Without an arrow the label is there.
    """
    last_tokens = curve.groupby("variant")["tokens"].max()
    arrows = []
    for row in rows.to_dict("records"):
        arrow = NO_ARROW
        if _is_of(row, first):
            arrow = _arrow(row, grid, last_tokens)
        arrows.append((row["variant"], *arrow, _answer_in_words(row, first)))
    answers = pd.DataFrame(arrows, columns=[*ARROW, "label"])
    answers = answers.assign(place=ANSWER, line=range(len(answers)))
    of_first = rows[[_is_of(row, first) for row in rows.to_dict("records")]]
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


def _at_scores(grid: Grid) -> pd.DataFrame:
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
    return f"{text}, {times(row['tokens'] / row['baseline_tokens'])} {grid.baseline}’s"


def _chart(
    rows: pd.DataFrame,
    arrows: pd.DataFrame,
    missed: pd.DataFrame,
    grid: Grid,
    styles: Mapping[str, Style],
    first: Mapping[str, Any],
) -> chart.Specification:
    loss = first["metric"] == "loss"
    x = chart.token_axis(rows["tokens"])
    y = chart.y_axis("value", format="~g" if loss else ".0%")
    levels = [] if loss else chart.chance_level(rows)
    base = alt.Chart(chart.records(rows, ["variant", "tokens", "value"])).encode(
        x=x, y=y, color=chart.colour(styles)
    )
    tooltip = chart.tooltip(
        ("variant:N",), ("tokens:Q", ","), ("value:Q", ".3f" if loss else ".1%", first["metric"])
    )
    slider = _slider(arrows, first)
    layers = [line for line, _ in levels]
    layers += chart.line_and_markers(base, styles, tooltip, size=26)
    layers += _heading(grid, slider["name"], y, first)
    layers += _arrow_marks(arrows, slider["name"], rows["tokens"], y, styles, loss)
    for place in range(len(missed)):  # apart, though all stop at the same tokens
        columns = ["variant", "tokens", "best", "baseline_best"]
        stopped = alt.Chart(chart.records(missed.iloc[[place]], columns))
        dashed = stopped.mark_rule(strokeDash=[4, 3], strokeWidth=1.6, xOffset=-4 * place)
        dashed = dashed.encode(x=x, color=chart.colour(styles))
        layers.append(dashed.encode(y=alt.Y("best:Q", title=None), y2=alt.Y2("baseline_best:Q")))
    layers += [name for _, name in levels]
    return chart.layered(*layers, width=520, height=HEIGHT, params=[slider])


def _slider(arrows: pd.DataFrame, first: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameter with the place of the arrows, which begins at the answer."""
    depth = str(first["depth"]).replace("-", "_")
    parameter = {"name": f"place_{depth}", "value": ANSWER}
    last = int(arrows["place"].max())
    if last > ANSWER:
        parameter["bind"] = {
            "input": "range",
            "min": ANSWER,
            "max": last,
            "step": 1,
            "name": f"Drag for the tokens to one {measure_name(first)}; left end: the answer",
        }
    return parameter


def _heading(grid: Grid, slider: str, y: alt.Y, first: Mapping[str, Any]) -> list[alt.Chart]:
    """Draw a line at the score where the slider is, and what the labels below are about."""
    loss = first["metric"] == "loss"
    places = [
        {
            "place": step + ANSWER + 1,
            "value": value,
            "words": f"Tokens to {grid.in_words(value)}",
        }
        for step, value in grid.scores.items()
    ]
    words = f"Training tokens over {grid.baseline}’s"
    frame = pd.DataFrame([{"place": ANSWER, "value": math.nan, "words": words}, *places])
    base = alt.Chart(chart.records(frame, ["place", "value", "words"])).transform_filter(
        f"datum.place === {slider}"
    )
    line = base.transform_filter("isValid(datum.value)").mark_rule(
        color=LIGHT["rule"], strokeDash=[2, 3]
    )
    heading = base.mark_text(**_corner(loss), color=LIGHT["muted"])
    return [
        line.encode(y=y),
        heading.encode(x=_corner_x(loss), y=alt.YValue(0), text=alt.Text("words:N")),
    ]


def _corner(loss: bool) -> dict[str, Any]:
    """Return the looks of text in the upper corner that the curves leave free."""
    side = "right" if loss else "left"
    return {"align": side, "baseline": "top", "fontSize": 13, "fontWeight": 600}


def _corner_x(loss: bool) -> alt.XValue:
    return alt.XValue("width" if loss else 6)


def _arrow_marks(
    arrows: pd.DataFrame,
    slider: str,
    counts: pd.Series,
    y: alt.Y,
    styles: Mapping[str, Style],
    loss: bool,
) -> list[alt.Chart]:
    """Draw arrows where the slider is, and a line of text for each model."""
    data = chart.records(arrows, [*ARROW, "label", "place", "line"])
    base = (
        alt.Chart(data)
        .transform_filter(f"datum.place === {slider}")
        .encode(color=chart.colour(styles))
    )
    both_ends = base.transform_filter("isValid(datum.tokens) && isValid(datum.baseline_tokens)")
    tail = chart.token_axis(counts, "baseline_tokens")
    x = chart.token_axis(counts, "tokens")
    more, fewer = HEADS
    head = alt.condition("datum.tokens > datum.baseline_tokens", alt.value(more), alt.value(fewer))
    dash = alt.condition("datum.dashed", alt.value([5, 3]), alt.value([1, 0]))
    lines = base.encode(
        x=_corner_x(loss),
        y=alt.YValue({"expr": f"{LINE} * (datum.line + 1)"}),
        text=alt.Text("label:N"),
    )
    shaft = both_ends.mark_rule(strokeWidth=2.4).encode(x=tail, x2=alt.X2("tokens:Q"), y=y)
    return [
        shaft.encode(strokeDash=dash),
        both_ends.mark_point(filled=True, size=60, opacity=1).encode(x=x, y=y, shape=head),
        lines.mark_text(**_corner(loss), stroke=LIGHT["paper"], strokeWidth=4),
        lines.mark_text(**_corner(loss)),
    ]
