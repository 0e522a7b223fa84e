"""Tabulate the answer by difficulty: ratios on the easy, the middle and the hard items."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dreamer_study.reports.style.theme import Style, ordered
from dreamer_study.reports.tables.cells import Cell, Table, left, model_cells, table
from dreamer_study.reports.text.names import task_name
from dreamer_study.reports.text.numbers import NOTHING
from dreamer_study.reports.text.ratios import Row, short_interval, short_ratio
from dreamer_study.sql.names import AVERAGE

DIFFICULTIES = ("easy", "middle", "hard")


def difficulty(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Tabulate the view `ratios_by_difficulty`, a column for each third of the items."""
    body = []
    ranked = rows.assign(is_task=rows["task"] != AVERAGE)  # averages first
    ranked = ranked.sort_values(["depth", "is_task", "task"], kind="stable")
    models = ["depth", "task", "variant"]
    by_model = dict(list(ranked.groupby(models, sort=False)))
    for row in ordered(ranked.drop_duplicates(models), styles).to_dict("records"):
        of_model = by_model[row["depth"], row["task"], row["variant"]]
        by_difficulty = {each["difficulty"]: each for each in of_model.to_dict("records")}
        cells = [
            *model_cells(row["variant"], row["depth"], styles),
            task_name(row["task"]),
            *(_cell(by_difficulty.get(name)) for name in DIFFICULTIES),
        ]
        body.append((row["depth"], cells))
    return table(
        "table-difficulty",
        "Ratios of training tokens on the easy, the middle and the hard items: thirds of each"
        " benchmark's items by the learning time of all runs together. Below a ratio, its 95 % CI"
        " over seeds and items, not corrected for the number of ratios.",
        [left("Model"), "Depth", left("Benchmark"), "Easy items", "Middle", "Hard"],
        body,
    )


def _cell(row: Row | None) -> Cell | str:
    if row is None:
        return NOTHING
    return Cell(short_ratio(row) or NOTHING, note=short_interval(row))


def in_words(variant: str, task: str, rows: pd.DataFrame) -> str:
    """Say the ratios of a variant on the easy, the middle and the hard items."""
    by_difficulty = {row["difficulty"]: row for row in rows.to_dict("records")}
    what = "average accuracy" if task == AVERAGE else f"accuracy on {task_name(task)}"
    baseline = rows["baseline"].iloc[0]
    parts = [_part(name, by_difficulty.get(name)) for name in DIFFICULTIES]
    return f"{variant} over {baseline}, {what}: {', '.join(parts)}."


def _part(name: str, row: Row | None) -> str:
    value = "" if row is None else short_ratio(row)
    if row is None or value in ("", NOTHING):
        return f"no accuracy in common on the {name} items"
    interval = short_interval(row)
    return (
        f"{value} ({interval}) on the {name} items" if interval else f"{value} on the {name} items"
    )
