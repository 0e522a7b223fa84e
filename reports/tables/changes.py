"""Tabulate what changed between two studies: accuracies on equal items, factors, losses on held-out documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from reports.data import UNKNOWN_DEPTH
from reports.tables.cells import Cell, Table, left, table
from reports.tables.origins import STUDY, Origin
from reports.text.names import depth_name, task_name
from reports.text.numbers import fine_factor, fine_interval, number, percent, tokens
from sql.statistics.comparability import SIDES
from sql.statistics.comparison import Comparison

INTERVAL = (
    "The interval is made of the items that both studies asked: their differences are drawn anew "
    "(sql/statistics/bootstrap.py: resample). A click on p names the query of the items."
)
TESTED = (
    "These rows are joined with those of the other study by item_id, metric and filter. The differences of the joined "
    "rows are tested (sql/statistics/comparison.py: paired_p), and p is adjusted for all rows of the table (holm)."
)
IN_PART = "This query is over all items of the study; the table compares those that both studies asked."
COMPARED = {"compared_scores": "accuracies", "compared_factors": "factors", "compared_losses": "losses"}
RULES = {"first": "the paper’s"}  # in words, where the name of the rule says little
PAIRED = "item_id, metric, filter, value"
ASKED = "100 * avg(value) AS accuracy, count(*) AS items"


def changes(found: Comparison, names: tuple[str, str], suffix: str) -> list[Table]:
    """Return the tables of a comparison; `names` are those of its studies, `suffix` ends the anchors of the tables."""
    return [_accuracies(found, names, suffix), _factors(found, names, suffix), _losses(found, names, suffix)]


def _model(row: dict) -> list[Cell | str]:
    return [Cell(row["variant"], kind="left", scope="row"), depth_name(_depth(row), short=True)]


def _depth(row: Mapping[str, Any]) -> int:
    return UNKNOWN_DEPTH if pd.isna(row["depth"]) else row["depth"]


def _of_both(
    cells: tuple[Cell | str, ...], row: Mapping[str, Any], names: tuple[str, str], columns: str, macro: str, *keys: str
) -> list[Cell]:
    """Attach queries to the cells of a row: the first study's, the second study's, and both queries to a third cell."""
    place = {name: row[name] for name in ("variant", "task", *keys)} | {"depth": _depth(row)}
    both = tuple(Origin(columns, f"{macro}({STUDY})", {"study_id": name, **place}) for name in names)
    compared = tuple(replace(one, note=f"One of the two {COMPARED[macro]} compared.") for one in both)
    made = [cell if isinstance(cell, Cell) else Cell(cell) for cell in cells]
    return [replace(cell, origins=both[place : place + 1] or compared) for place, cell in enumerate(made)]


def _accuracies(found: Comparison, names: tuple[str, str], suffix: str) -> Table:
    body = []
    for row in found.accuracies.to_dict("records"):
        span = f"{100 * row['low']:+.1f} to {100 * row['high']:+.1f}".replace("-", "−")
        change = Cell(
            f"{100 * row['difference']:+.1f}".replace("-", "−"), span, kind="strong" if row["changed"] else ""
        )
        shown = (percent(row["first"]), percent(row["second"]), change)
        cells = _of_both(shown, row, names, ASKED, "compared_scores", "checkpoint")
        cells = [replace(cell, origins=_noted(cell.origins, row, names)) for cell in cells]
        place = [*_model(row), task_name(row["task"]), row["checkpoint"], number(row["items"])]
        both = cells[-1].origins
        cells[-1] = replace(cells[-1], origins=tuple(replace(one, note=f"{one.note} {INTERVAL}") for one in both))
        tested = tuple(replace(one, columns=PAIRED, note=TESTED) for one in both)
        body.append((None, [*place, *cells, Cell(f"{row['adjusted_p']:.2g}", origins=tested)]))
    return table(
        f"table-changed-{suffix}",
        "Accuracy on the items that both studies asked, and the change in percentage points with its 95% interval. "
        "Bold: beyond the noise of the items, by paired tests with Holm’s correction over all rows. Trainings with "
        "other seeds differ by more.",
        [left("Model"), "Depth", left("Benchmark"), left("Checkpoint"), "Items", *names, "Change", "p"],
        body,
    )


def _noted(origins: tuple[Origin, ...], row: Mapping[str, Any], names: tuple[str, str]) -> tuple[Origin, ...]:
    """Add a note to the origin of an accuracy of a study that asked more items than are compared."""
    in_part = {name for name, side in zip(names, SIDES, strict=True) if row[f"items_{side}"] > row["items"]}
    return tuple(replace(one, note=f"{one.note} {IN_PART}".strip()) if one.study in in_part else one for one in origins)


def _factors(found: Comparison, names: tuple[str, str], suffix: str) -> Table:
    body = []
    for row in found.factors.to_dict("records"):
        sides = [{name: row[f"{name}_{side}"] for name in ("factor", "low", "high")} for side in SIDES]
        shown = (
            Cell(fine_factor(side["factor"]), fine_interval(side), kind="strong" if row["apart"] else "")
            for side in sides
        )
        cells = _of_both(tuple(shown), row, names, "factor, low, high, bound", "compared_factors", "rule")
        body.append((None, [*_model(row), task_name(row["task"]), RULES.get(row["rule"], row["rule"]), *cells]))
    return table(
        f"table-factors-{suffix}",
        "How many times fewer training tokens than LA of its own study each variant needs, with 95% intervals. Bold: "
        "the intervals of the two studies do not overlap.",
        [left("Model"), "Depth", left("Benchmark"), left("Rule"), *names],
        body,
    )


def _losses(found: Comparison, names: tuple[str, str], suffix: str) -> Table:
    body = []
    for row in found.losses.to_dict("records"):
        shown = (
            *(Cell(number(row[f"loss_{side}"], 3), f"at {tokens(row[f'tokens_{side}'])}") for side in SIDES),
            f"{row['difference']:+.3f}".replace("-", "−"),
        )
        body.append((None, [*_model(row), *_of_both(shown, row, names, "loss, tokens", "compared_losses")]))
    return table(
        f"table-losses-{suffix}",
        "Loss on held-out documents at the end of the training, in bits per byte, lower is better. There is no test: "
        "held-out documents are no items that could be paired.",
        [left("Model"), "Depth", *names, "Change"],
        body,
    )
