"""Tabulate what changed between two studies.

Accuracies are on equal items, losses on held-out documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import UNKNOWN_DEPTH
from dreamer_study.reports.tables.cells import Cell, Table, left, table
from dreamer_study.reports.text.names import depth_name, task_name
from dreamer_study.reports.text.numbers import THIN, interval, number, percent, times, tokens
from dreamer_study.sql.statistics.comparability import SIDES
from dreamer_study.sql.statistics.comparison import Comparison

# In words, where the name of the rule says little.
RULES = {
    "first": "the paper’s",
    "top accuracy": "ratio, accuracy",
    "top loss": "ratio, loss",
}
BOUNDS = {"at least": f"≥{THIN}", "at most": f"≤{THIN}"}


def changes(comparison: Comparison) -> list[Table]:
    """Return the tables of a comparison."""
    return [
        _accuracies(comparison.accuracies),
        _ratios(comparison.ratios),
        _losses(comparison.losses),
    ]


def _model(row: Mapping[str, Any]) -> list[Cell | str]:
    depth = UNKNOWN_DEPTH if pd.isna(row["depth"]) else row["depth"]
    return [Cell(row["variant"], kind="left", scope="row"), depth_name(depth, short=True)]


def _accuracies(rows: pd.DataFrame) -> Table:
    body = []
    for row in rows.to_dict("records"):
        tested = pd.notna(row["p"])
        span = f"{100 * row['low']:+.1f} to {100 * row['high']:+.1f}" if tested else ""
        change = Cell(
            _signed(100 * row["difference"], 1),
            _minus(span),
            kind="strong" if row["changed"] else "",
        )
        p = f"{row['adjusted_p']:.2g}" if tested else "no test"
        cells = [
            *_model(row),
            task_name(row["task"]),
            row["checkpoint"],
            number(row["items"]),
            percent(row["first"]),
            percent(row["second"]),
            change,
            p,
        ]
        body.append((None, cells))
    return table(
        "table-changed",
        "Accuracy on the items that both studies asked, and the change in percentage points with"
        " its 95% interval. Bold: beyond the noise of seeds and items, by Welch’s test with Holm’s"
        " correction over all rows. With one seed on either side there is no test.",
        [
            left("Model"),
            "Depth",
            left("Benchmark"),
            left("Checkpoint"),
            "Items",
            *SIDES,
            "Change",
            "p",
        ],
        body,
    )


def _ratios(rows: pd.DataFrame) -> Table:
    body = []
    for row in rows.to_dict("records"):
        kind = "strong" if row["apart"] else ""
        cells = [_ratio_cell(row, side, kind) for side in SIDES]
        rule = RULES.get(row["rule"], row["rule"])
        body.append((None, [*_model(row), task_name(row["task"]), rule, *cells]))
    return table(
        "table-changed-ratios",
        "Training tokens of each variant over those of the baseline of its own study, with 95 %"
        " CIs; below 1 is better. ≥ lower bound, ≤ upper bound. Bold: the intervals of the two"
        " studies do not overlap.",
        [left("Model"), "Depth", left("Benchmark"), left("Rule"), *SIDES],
        body,
    )


def _ratio_cell(row: Mapping[str, Any], side: str, kind: str) -> Cell:
    bound = row[f"bound_{side}"]
    text = BOUNDS.get(bound, "") + times(row[f"ratio_{side}"])
    ends = {name: row[f"{name}_{side}"] for name in ("low", "high")}
    note = "" if bound in BOUNDS else interval(ends)
    return Cell(text, note, kind)


def _losses(rows: pd.DataFrame) -> Table:
    body = []
    for row in rows.to_dict("records"):
        cells = [
            Cell(number(row[f"loss_{side}"], 3), f"at {tokens(row[f'tokens_{side}'])}")
            for side in SIDES
        ]
        body.append((None, [*_model(row), *cells, _signed(row["difference"], 3)]))
    return table(
        "table-changed-losses",
        "Loss on held-out documents at the end of training, in bits per byte; lower is better."
        " There is no test.",
        [left("Model"), "Depth", *SIDES, "Change"],
        body,
    )


def _signed(value: float, decimals: int) -> str:
    return _minus(f"{value:+.{decimals}f}")


def _minus(text: str) -> str:
    return text.replace("-", "−")
