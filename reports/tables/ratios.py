"""Tabulate the ratios of training tokens: the answer, and the means over the whole range."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dreamer_study.reports.data import baseline_of, without_baseline
from dreamer_study.reports.style.theme import Style, ordered
from dreamer_study.reports.tables.cells import (
    Cell,
    Table,
    left,
    model_cell,
    table,
    variant_head,
)
from dreamer_study.reports.text.answer import by_finding
from dreamer_study.reports.text.names import depth_name, measure_label, owner
from dreamer_study.reports.text.numbers import NOTHING, THIN, interval, ratio, times, tokens
from dreamer_study.reports.text.ratios import (
    LEAST,
    ONE_CHECKPOINT,
    SIGNIFICANT,
    Row,
    best_estimate,
    finding,
    p_value,
    score,
    scores,
    short_interval,
    short_ratio,
    weaknesses,
    yes_or_no,
)
from dreamer_study.sql.names import AVERAGE

UNDER_ONE = "< 1 checkpoint"
CHECKPOINTS_APART = (
    f"{UNDER_ONE}: the models are less than one checkpoint apart, which is no finding, whatever the"
    " CI: a CI knows of seeds and items, not of what lies between two checkpoints."
)
Tuned = Mapping[tuple[int, str], bool]  # by depth and variant; rates_tuned


def ratios(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Table:
    """Tabulate the ratios of one depth.

    A row for each measure and variant, in the order of the view. `rows` are those of
    `StudyData.ratios`.
    """
    body = []
    for row in _of_depth(rows, styles, depth):
        cells = [
            *_model_and_measure(row, styles),
            _ratio_cell(row),
            short_interval(row),
            _scores(row),
            _reached(row),
            _significant(row),
            _up_to_the_best(row),
            times(row["detectable"]),
            NOTHING if pd.isna(row["seeds"]) else f"{row['seeds']:.0f}",
        ]
        body.append(((row["metric"], row["task"]), cells))
    baseline = baseline_of(rows)
    start = _start(rows, depth, "Training")
    caption = [f"{start} tokens over those of {baseline} to equal scores; below 1 is better."]
    if rows["significant"].notna().any():
        untested = "; single tasks are not tested" if rows["significant"].isna().any() else ""
        caption.append(
            f"Bold: significant, with p corrected{_number_of_tests(rows)} by Holm’s"
            f" method{untested}."
        )
    caption.append(
        f"Up to {owner(baseline)}’s best: the same mean over the upper fifth of {owner(baseline)}’s"
        " own scores; ≥, a lower bound, where the variant did not reach all of them: for these its"
        " last token counts."
    )
    if rows["within_checkpoint"].any():
        caption.append(CHECKPOINTS_APART)
    if rows["detectable"].notna().any():
        caption.append(
            "Can detect: the smallest ratio that four of five such studies would distinguish"
            " from 1."
        )
    return table(
        f"table-ratios-{depth}",
        " ".join(caption),
        [
            left("Model"),
            left("For equal"),
            "Ratio",
            "95 % CI",
            "Scores",
            _reached_head(rows),
            "Significant",
            f"Up to {owner(baseline)}’s best",
            "Can detect",
            "Seeds",
        ],
        body,
    )


def details(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int, tuned: Tuned) -> Table:
    """Tabulate what makes each ratio of one depth weak, its tokens, and the paper's factor."""
    body = []
    any_tuned = any(tuned.values())  # where none was, the answer says so once
    for row in _of_depth(rows, styles, depth):
        is_tuned = tuned.get((depth, row["variant"])) if any_tuned else None
        cells = [
            *_model_and_measure(row, styles),
            short_ratio(row),
            ratio(row["factor"]),
            tokens(row["variant_tokens"]),
            tokens(row["baseline_tokens"]),
            Cell("; ".join(weaknesses(row, rates_tuned=is_tuned)), kind="long"),
        ]
        body.append(((row["metric"], row["task"]), cells))
    baseline = baseline_of(rows)
    return table(
        f"table-ratio-details-{depth}",
        f"{_start(rows, depth, 'What')} makes each ratio weak. The hardest score is the last of"
        " those that a ratio is the mean over, so its tokens alone give another ratio. The factor"
        f" is the paper’s data efficiency: tokens of {baseline} over those of the variant, which is"
        " 1 over the ratio, so that above 1 is better.",
        [
            left("Model"),
            left("For equal"),
            "Ratio",
            "Factor",
            "Its tokens to the hardest score",
            f"{baseline}’s tokens to the hardest score",
            left("What makes it weak"),
        ],
        body,
    )


def _of_depth(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> list[Row]:
    """Return the rows of one depth by measure, without measures that no model has a curve of."""
    rows = rows[rows["depth"] == depth]
    rows = rows[rows.groupby(["metric", "task"])["seeds"].transform("count") > 0]
    by_measure = rows.groupby(["metric", "task"], sort=False)
    return [row for _, part in by_measure for row in ordered(part, styles).to_dict("records")]


def _start(rows: pd.DataFrame, depth: int, word: str) -> str:
    """Begin a caption, with the depth where there are several."""
    if rows["depth"].nunique() == 1:
        return word
    return f"{depth_name(depth)}: {word.lower()}"


def _model_and_measure(row: Row, styles: Mapping[str, Style]) -> list[Cell | str]:
    return [model_cell(row["variant"], styles), measure_label(row)]


def _ratio_cell(row: Row) -> Cell:
    if row["outdated"]:
        return Cell(NOTHING, note="not computed")
    if pd.isna(row["seeds"]):
        return Cell(NOTHING, note="not evaluated")
    if pd.isna(best_estimate(row)):
        missed = row["in_advance"] and pd.notna(row["score_high"])
        return Cell(NOTHING, note="neither reached it" if missed else "nothing in common")
    return Cell(short_ratio(row), kind="strong" if finding(row) == SIGNIFICANT else "")


def _scores(row: Row) -> Cell:
    return Cell(scores(row) or NOTHING, note="fixed in advance" if row["in_advance"] else "")


def _reached_head(rows: pd.DataFrame) -> str:
    """Name what was to be reached: where scores were fixed in advance, these."""
    if rows["in_advance"].all():
        return "Reached the score"
    best = f"Reached {owner(baseline_of(rows))}’s best"
    return f"{best}, or the score" if rows["in_advance"].any() else best


def _reached(row: Row) -> str:
    """Say whether the baseline's best was reached, and the variant's own best where that is lower.

    A best that is lower by no more than two standard errors is within noise.
    """
    if pd.isna(row["reached"]):
        return NOTHING
    if row["reached"]:
        is_lower = row["best"] < row["baseline_best"]
        is_worse = is_lower if row["metric"] == "accuracy" else row["best"] > row["baseline_best"]
        return f"within noise, {score(row['best'], row['metric'])}" if is_worse else "yes"
    return f"no, {score(row['best'], row['metric'])}"


def _up_to_the_best(row: Row) -> str:
    """Format the ratio up to the baseline's best, a bound where that was never reached."""
    if pd.isna(row["at_least"]) or pd.isna(row["reached"]):
        return NOTHING
    text = times(row["at_least"])
    return text if row["reached"] else f"{LEAST}{THIN}{text}"


def _significant(row: Row) -> str:
    if pd.isna(row["significant"]):
        return ""
    if row["within_checkpoint"]:
        return f"no, {UNDER_ONE}"
    return f"{yes_or_no(row['significant'])}, {p_value(row['p_adjusted'])}"


def ranked(leading: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Table:
    """Rank the variants of one depth by the ratio that is their answer, significant ones first.

    `leading` has one row for each depth and variant.
    """
    rows = leading[leading["depth"] == depth]
    estimates = [best_estimate(row) for row in rows.to_dict("records")]
    rows = by_finding(rows.assign(estimate=estimates).sort_values("estimate", kind="stable"))
    body = []
    for row in rows.to_dict("records"):
        cells = [
            model_cell(row["variant"], styles),
            _ratio_cell(row),
            short_interval(row),
            Cell(UNDER_ONE if finding(row) == ONE_CHECKPOINT else finding(row), kind="left"),
            _scores(row),
            _reached(row),
        ]
        body.append((finding(row), cells))
    start = _start(leading, depth, "Training")
    caption = [f"{start} tokens over those of {baseline_of(rows)}; below 1 is better."]
    if rows["within_checkpoint"].any():
        caption.append(CHECKPOINTS_APART)
    return table(
        f"table-ranked-{depth}",
        " ".join(caption),
        [
            left("Model"),
            "Ratio",
            "95 % CI",
            left("Finding"),
            "Scores",
            _reached_head(rows),
        ],
        body,
    )


def single_tasks(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Table:
    """Tabulate the ratios of many benchmarks: a row for each, a column for each variant."""
    start = _start(rows, depth, "Ratios")
    rows = without_baseline(rows[rows["depth"] == depth])
    by_cell = {(row["variant"], row["metric"], row["task"]): row for row in rows.to_dict("records")}
    measures = sorted({(task, metric) for _, metric, task in by_cell})
    variants = list(ordered(rows, styles)["variant"].unique())
    body = []
    for task, metric in measures:
        cells = [_single_cell(by_cell.get((variant, metric, task))) for variant in variants]
        body.append((None, [measure_label({"metric": metric, "task": task}), *cells]))
    return table(
        f"table-single-ratios-{depth}",
        f"{start} of each benchmark with 95 % CIs, which are not corrected for the number of"
        " comparisons.",
        [left("For equal"), *(variant_head(variant, styles) for variant in variants)],
        body,
    )


def _number_of_tests(rows: pd.DataFrame) -> str:
    """Say for how many comparisons p-values are corrected: ` for 9 comparisons`.

    There are two numbers where models that were measured elsewhere are corrected apart.
    """
    numbers = [f"{number:.0f}" for number in sorted(rows["comparisons"].dropna().unique())]
    if len(numbers) > 1:
        return f" for {' or '.join(numbers)} comparisons (models measured elsewhere apart)"
    return "" if numbers in ([], ["1"]) else f" for {numbers[0]} comparisons"


def _single_cell(row: Row | None) -> Cell:
    if row is None:
        return Cell(NOTHING)
    return Cell(_ratio_cell(row).text, note=short_interval(row) or _ratio_cell(row).note)


def mean_ratios(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Table:
    """Tabulate the mean ratios of one depth over all scores that both models reached.

    A row for each measure, the averages first, and a column for each variant. `rows` are those of
    `StudyData.mean_factors`.
    """
    start = _start(rows, depth, "Mean")
    rows = without_baseline(rows[rows["depth"] == depth])
    rows = rows[rows.groupby(["metric", "task"])["ratio"].transform("count") > 0]
    measures = sorted(
        {*zip(rows["task"], rows["metric"], strict=True)},
        key=lambda measure: (measure[0] != AVERAGE, *measure),
    )
    by_cell = {(row["variant"], row["metric"], row["task"]): row for row in rows.to_dict("records")}
    variants = list(ordered(rows, styles)["variant"].unique())
    body = []
    for task, metric in measures:
        cells = [_mean_cell(by_cell.get((variant, metric, task), {})) for variant in variants]
        body.append((task == AVERAGE, [measure_label({"metric": metric, "task": task}), *cells]))
    return table(
        f"table-mean-ratios-{depth}",
        f"{start} ratios over all scores that both models reached, early ones too, with 95 %"
        " CIs. They are not the answer: what comes early in training weighs most in them.",
        [left("For equal"), *(variant_head(variant, styles) for variant in variants)],
        body,
    )


def _mean_cell(row: Row) -> Cell:
    if row.get("outdated"):
        return Cell(NOTHING, note="not computed")
    if pd.isna(row.get("ratio")):
        has_curve = pd.notna(row.get("seeds"))
        return Cell(NOTHING, note="nothing in common" if has_curve else "not evaluated")
    ends = interval({"low": row["ratio_low"], "high": row["ratio_high"]})
    return Cell(times(row["ratio"]), note=ends or "no CI")
