"""Tabulate mean factors, and factors by the paper's rule: by task, by rule, and in tokens, FLOPs and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from reports.data import baseline_of, without_baseline
from reports.style.theme import Style, ordered
from reports.tables.cells import Cell, Table, left, model_cells, table, variant_head
from reports.text.mean_factors import bounded_factor
from reports.text.names import depth_name, measure_label, task_name, task_order
from reports.text.numbers import NOTHING, duration, factor, fine_interval, percent, tokens
from sql.names import AVERAGE

UNITS = ("tokens", "flops", "seconds")  # in which factors are counted


def mean_factors(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Table:
    """Tabulate the mean factors of one depth with their intervals: measures by variants, the averages first.

    `rows` are those of `StudyData.mean_factors`.
    """
    rows = without_baseline(rows[rows["depth"] == depth])
    rows = rows[rows.groupby(["metric", "task"])["factor"].transform("count") > 0]
    measures = sorted({*zip(rows["metric"], rows["task"], strict=True)}, key=lambda m: (m[1] != AVERAGE, m[1], m[0]))
    by_cell = {(row["variant"], row["metric"], row["task"]): row for row in rows.to_dict("records")}
    variants = list(ordered(rows, styles)["variant"].unique())
    body = []
    for metric, task in measures:
        cells = [_mean_cell(by_cell.get((variant, metric, task), {})) for variant in variants]
        body.append((task == AVERAGE, [measure_label({"metric": metric, "task": task}), *cells]))
    return table(
        f"table-mean-factors-{depth}",
        f"{depth_name(depth)}: how many times fewer training tokens than {baseline_of(rows)} each variant needs "
        "for equal "
        "accuracy and for equal loss, the mean over all values that both reached, with 95% intervals over seeds and "
        "items.",
        [left("For equal"), *(variant_head(variant, styles) for variant in variants)],
        body,
        *["† what both models reached is hardly more than noise: the factor says little."]
        * bool(rows["within_noise"].any()),
        *["≤ the variant never reached a tenth or more of the baseline’s range: a bound over that whole range."]
        * bool(rows["bounded"].any()),
    )


def _mean_cell(row: Mapping[str, Any]) -> Cell:
    if row.get("outdated"):
        return Cell(NOTHING, note="not computed")
    if pd.isna(row.get("factor")):
        return Cell(NOTHING, note="nothing in common" if pd.notna(row.get("seeds")) else "not evaluated")
    kind = "strong" if row["task"] == AVERAGE else ""
    text = bounded_factor(row) + "†" * bool(row["within_noise"])
    return Cell(text, fine_interval(row) or "no interval", kind)


def factors(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Table:
    """Tabulate the factors of one depth by the paper's rule: tasks by variants, the average first."""
    rows = rows[rows["depth"] == depth]
    baseline = baseline_of(rows)
    by_cell = {(row["variant"], row["task"]): row for row in rows.to_dict("records")}
    variants = list(ordered(rows, styles)["variant"].unique())
    body, flagged = [], bool(rows["near_chance"].any())
    for task in task_order(rows["task"], average_first=True):
        cells: list[Cell | str] = [task_name(task)]
        for variant in variants:
            row = by_cell.get((variant, task), {})
            cell = _baseline_cell(row) if variant == baseline else _factor_cell(row)
            cells.append(replace(cell, kind="strong" if task == AVERAGE else ""))
        body.append((task == AVERAGE, cells))
    notes = ["† the baseline’s best accuracy is within two standard errors of chance: the factor says little."]
    return table(
        f"table-factors-{depth}",
        f"{depth_name(depth)}: how many times fewer training tokens than {baseline} each variant needs to reach "
        f"{baseline}’s best accuracy. In the column of {baseline}: its best accuracy and when that was reached.",
        [left("Benchmark"), *(variant_head(variant, styles) for variant in variants)],
        body,
        *notes * flagged,
    )


def _baseline_cell(row: Mapping[str, Any]) -> Cell:
    if pd.isna(row.get("factor")):
        return Cell(NOTHING, note="not evaluated")
    where = f"{percent(row['baseline_accuracy'])} at {tokens(row['baseline_tokens'])}"
    return Cell(factor(row["factor"]) + ("†" if row["near_chance"] else ""), note=where)


def _factor_cell(row: Mapping[str, Any]) -> Cell:
    if pd.isna(row.get("factor")):
        return Cell(NOTHING, note="not evaluated" if pd.isna(row.get("own_best")) else "no baseline")
    flag = "†" if row["near_chance"] else ""
    return Cell(_bounded(row["factor"], row["bound"]) + flag)


def _bounded(value: Any, bound: str) -> str:
    if pd.isna(value):
        return NOTHING
    return factor(value) if bound == "exact" else f"{bound} {factor(value)}"


def compute(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Tabulate the factors on the average in tokens, FLOPs and device-seconds (`compute_efficiency`)."""
    rows = without_baseline(rows[(rows["task"] == AVERAGE) & rows["factor_tokens"].notna()])
    baseline = baseline_of(rows)
    body = []
    for row in ordered(rows, styles).to_dict("records"):
        values = [_bounded(row[f"factor_{unit}"], row["bound"]) for unit in UNITS]
        values += [duration(row[f"{side}_device_seconds"]) for side in ("baseline", "variant")]
        body.append((row["depth"], [*model_cells(row["variant"], row["depth"], styles), *values]))
    return table(
        "table-compute",
        "The average’s factors counted in training tokens, in FLOPs, and in time of training at the speeds measured in "
        "this study. A variant that trains more slowly gains less in time than in tokens. Times are those of all "
        f"devices of a run together; the last columns are the times to the best accuracy of {baseline}, a dash: not "
        "reached.",
        [left("Model"), "Depth", "Tokens", "FLOPs", "Time", f"{baseline} took", "The variant took"],
        body,
    )
