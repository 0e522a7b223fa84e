"""Draw the ratios of tokens of all measures and models, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from dreamer_study.reports.data import baseline_of
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.ratios import (
    DIRECTION,
    EDGE,
    by_effect,
    distinguished,
    known,
    label,
    mark_of,
    ratio_axis,
    what_filled_means,
)
from dreamer_study.reports.figures.rendering import Figure, Panel, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style, present
from dreamer_study.reports.text.names import are_many, depth_name, measure_label
from dreamer_study.reports.text.numbers import counted
from dreamer_study.reports.text.ratios import leading, read_for
from dreamer_study.sql.names import AT_LEAST, AT_MOST, AVERAGE

COSTS = {"flops": "FLOPs", "seconds": "seconds"}  # of a training token
SIGNS = {AT_LEAST: "▸", AT_MOST: "◂"}  # of bounds
NOISY = 1.25  # times as fast as its slowest run: seconds say more of the machine than of the model
LABELLED_FROM = 400  # pixels of a plot beside whose points the ratios are written


def token_ratios(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw ratios (x, logarithmic) with their 95 % intervals by measure and variant (y).

    A panel for each depth; of many benchmarks the averages have a panel, and one benchmark, which
    the reader chooses, has another. `rows` are those of `StudyData.ratios`. None without ratios and
    bounds.
    """
    rows = known(rows)
    rows = rows.sort_values(
        ["task", "metric"], key=lambda names: names.map(lambda name: (name != AVERAGE, name))
    )
    if rows.empty:
        return None
    shown = present(styles, rows)
    records = rows.to_dict("records")
    rows = rows.assign(
        name=[measure_label(row) for row in records],
        label=[label(row) for row in records],
        hollow=~distinguished(rows),
    )
    limits = rows[["shown", "low", "high"]].astype(float)
    low = min(0.8, float(limits.min().min()) / EDGE)
    high = max(1.25, float(limits.max().max()) * EDGE)
    # The line of a bound leads to the edge.
    rows = rows.assign(least=rows["low"].fillna(low), most=rows["high"].fillna(high))
    no_ends = rows["low"].isna() & rows["high"].isna()
    rows.loc[no_ends, ["least", "most"]] = float("nan")
    panels = []
    for _, part in rows.groupby("depth"):
        panels += _panels(part, shown, low, high)
    drawn_bounds = set(rows["bound"])
    signs = [f"{sign} {bound}" for bound, sign in SIGNS.items() if bound in drawn_bounds]
    bounds = f" {', '.join(signs)}: the true ratio lies on that side." if signs else ""
    return figure(
        "token-ratios",
        f"Training tokens over those of {baseline_of(rows)}",
        "At equal final quality: means over the upper fifth of the scores that are compared. Lines:"
        f" 95 % confidence intervals (CI), over seeds and items. {what_filled_means(rows)}{bounds}",
        panels,
        shown,
        wide=True,
        finding=_finding(rows),
    )


def cost_ratios(
    rows: pd.DataFrame, costs: pd.DataFrame, styles: Mapping[str, Style]
) -> Figure | None:
    """Draw the ratios of the answer in tokens, in training FLOPs and in seconds of training.

    A token of each model has one cost, so a ratio in FLOPs is that in tokens times the costs of a
    token over the baseline's. `rows` are those of `StudyData.ratios`, `costs` those of
    `StudyData.costs`. None where no cost is known.
    """
    rows = known(leading(rows))
    baseline = baseline_of(rows)
    own = rows[["depth", "variant"]].merge(costs, how="left").set_axis(rows.index)
    keys = rows[["depth"]].assign(variant=baseline)
    of_baseline = keys.merge(costs, how="left").set_axis(rows.index)
    parts = [rows.assign(name="tokens")]
    for column, name in COSTS.items():
        scale = own[column] / of_baseline[column]
        scaled = {end: rows[end] * scale for end in ("shown", "ratio", "low", "high")}
        # of the test, and of the checkpoints, the ratio in tokens alone is known
        untested = {"significant": pd.NA, "within_checkpoint": False}
        parts.append(rows.assign(name=name, **scaled, **untested)[scale.notna()])
    if sum(map(len, parts[1:])) == 0:
        return None
    all_rows = pd.concat(parts, ignore_index=True)
    all_rows = all_rows.assign(
        label=[label(row) for row in all_rows.to_dict("records")],
        hollow=~distinguished(all_rows),
    )
    limits = all_rows[["shown", "low", "high"]].astype(float)
    low = min(0.8, float(limits.min().min()) / EDGE)
    high = max(1.25, float(limits.max().max()) * EDGE)
    all_rows = all_rows.assign(
        least=all_rows["low"].fillna(low), most=all_rows["high"].fillna(high)
    )
    shown = present(styles, all_rows)
    panels = []
    for depth, part in all_rows.groupby("depth"):
        drawn = _chart(part, shown, low, high, title="less  ←  1  →  more")
        ratios = [f"{row.variant} in {row.name}: {row.label}" for row in part.itertuples(False)]
        description = f"Ratios at {depth_name(depth).lower()}. {'; '.join(ratios)}."
        panels.append(panel(depth_name(depth), description, drawn, depth=depth))
    return figure(
        "cost-ratios",
        "The answer in tokens, FLOPs and seconds",
        f"What each variant takes over what {baseline} takes, to the scores of the answer. A ratio"
        " in FLOPs is the ratio in tokens times the training FLOPs of a token over"
        f" {baseline}’s; seconds are those of the device that trained, the median of the runs."
        " Lines: 95 % confidence intervals (CI) of the tokens, over seeds and items. Ratios in"
        f" tokens alone are tested. {what_filled_means(all_rows)}{_of_seconds(all_rows, costs)}",
        panels,
        shown,
        wide=True,
    )


def _of_seconds(rows: pd.DataFrame, costs: pd.DataFrame) -> str:
    """Say how much the runs of one model differ in speed, where that makes seconds doubtful."""
    unsteady = costs[costs["spread"] > NOISY]
    if unsteady.empty or "seconds" not in set(rows["name"]):
        return ""
    worst = unsteady.loc[unsteady["spread"].idxmax()]
    return (
        f" Seconds are noisy: the fastest run of {worst['variant']} was {worst['spread']:.1f} times"
        " as fast as its slowest, which no interval knows of."
    )


def _panels(
    rows: pd.DataFrame, styles: Mapping[str, Style], low: float, high: float
) -> list[Panel]:
    """Draw the ratios of one depth: in one panel, or of many benchmarks the averages and one."""
    depth = int(rows["depth"].iloc[0])
    keys = {"depth": depth}
    if not are_many(rows["task"]):
        drawn = _chart(rows, styles, low, high)
        return [panel(depth_name(depth), _in_words(rows), drawn, **keys)]
    headline = read_for(rows)
    panels = []
    if len(headline) < len(rows):
        for name, part in headline.groupby("name", sort=False):
            drawn = _chart(part, styles, low, high, by="variant")
            title = f"{depth_name(depth)}, {name[0].lower()}{name[1:]}"
            panels.append(panel(title, _in_words(part), drawn, **keys))
    single = rows[~rows.index.isin(headline.index)] if panels else rows
    chosen = chart.chosen_benchmark(single["task"], depth)
    drawn = _chart(single, styles, low, high, by="variant", chosen=chosen)
    # A single benchmark beside an average is not tested.
    description = f"Ratios of one benchmark at {depth_name(depth).lower()}, which a menu chooses."
    return [*panels, panel(f"{depth_name(depth)}, one benchmark", description, drawn, **keys)]


def _in_words(rows: pd.DataFrame) -> str:
    """Say the ratios of a panel to those who do not see it."""
    ratios = [f"{row.variant} on {row.name}: {row.label}" for row in rows.itertuples(index=False)]
    depth = depth_name(rows["depth"].iloc[0]).lower()
    return f"Training tokens over those of {baseline_of(rows)} at {depth}. {'; '.join(ratios)}."


def _finding(rows: pd.DataFrame) -> str:
    """Say how many ratios are significant; empty where none was tested."""
    tested = rows[rows["significant"].notna() & rows["comparisons"].notna()]
    if tested.empty:
        return ""
    significant = tested[tested["significant"].astype(bool)]
    fewer = int((significant["shown"] < 1).sum())
    more = len(significant) - fewer
    words = f"Significant: {len(significant)} of {counted(len(tested), 'ratio')} tested"
    if len(significant):
        return f"{words}, {fewer} with fewer tokens and {more} with more."
    return f"{words}."


def _chart(
    rows: pd.DataFrame,
    styles: Mapping[str, Style],
    low: float,
    high: float,
    *,
    by: str = "name",
    chosen: chart.Parameter | None = None,
    title: str = DIRECTION,
) -> chart.Specification:
    """Draw a row for each measure with a line for each variant, or `by` variant a row for each.

    Variants are in the order of their effects. With `chosen` only the rows of the benchmark that
    the reader chose are drawn.
    """
    names = list(rows["name"].unique())
    variants = by_effect(rows, "variant")
    base = alt.Chart()
    if by == "variant":
        y = alt.Y("variant:N", title=None, sort=variants, axis=chart.name_axis(styles))
        base = base.encode(y=y)
        lines = len(variants)
    else:
        scale = alt.Scale(paddingInner=0.25)
        y = alt.Y("name:N", title=None, sort=names, scale=scale, axis=chart.name_axis(names))
        base = base.encode(y=y, yOffset=alt.YOffset("variant:N", sort=variants))
        lines = len(names) * len(variants)
    domain = [low, high * (high / low) ** 0.3]  # with room for the labels on the right
    scale = alt.Scale(type="log", domain=domain, nice=False)
    axis = ratio_axis(low, high, domain[1], title=title)
    x = alt.X("shown:Q", title=title, scale=scale, axis=axis)
    ratio_of_one = alt.Chart(alt.InlineData(values=[{"shown": 1}]))
    line_at_one = ratio_of_one.mark_rule(color=LIGHT["v0"], strokeWidth=1.4).encode(x=x)
    if chosen:
        base = base.transform_filter(chart.is_chosen(chosen))
    spans = base.transform_filter("isValid(datum.least) && isValid(datum.most)")
    points = base.mark_point(size=80, opacity=1, strokeWidth=1.6).encode(
        x=x,
        color=chart.colour(styles),
        shape=alt.Shape("symbol:N", scale=None, legend=None),
        fill=alt.condition("datum.hollow", alt.value(LIGHT["paper"]), chart.colour(styles)),
        tooltip=chart.tooltip(
            ("variant:N",), ("name:N", "", "measure"), ("label:N", "", "ratio (95 % CI)")
        ),
    )
    fields = [
        "variant",
        "task",
        "metric",
        "name",
        "shown",
        "least",
        "most",
        "bound",
        "hollow",
        "label",
        "symbol",
    ]
    has_room = f"(width || {chart.WIDE}) >= {LABELLED_FROM}"
    layers = [
        line_at_one,
        spans.mark_rule(strokeWidth=2, strokeOpacity=0.55).encode(
            x=alt.X("least:Q", title=title, scale=scale),
            x2=alt.X2("most:Q"),
            color=chart.colour(styles),
        ),
        points,
        base.mark_text(align="right", fontSize=11).encode(
            x=alt.XValue("width"),
            # a phone has no room: the numbers are in the table and the tooltip
            text=alt.condition(has_room, "label:N", alt.value("")),
        ),
    ]
    return chart.layered(
        *layers,
        data=chart.records(rows.assign(symbol=mark_of(rows, styles)), fields),
        width=chart.WIDE,
        # no step: Vega-Lite warns of one beside a fitted width
        height=22 * lines,
        **({"params": [chosen]} if chosen else {}),
    )
