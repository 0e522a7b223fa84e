"""Write what a study says in a few lines of Markdown.

These are the answer, what makes the answer weak, ratios and curves.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.page.answer import first_screen
from dreamer_study.reports.style.theme import styles
from dreamer_study.reports.text.names import depth_name, task_name
from dreamer_study.reports.text.numbers import tokens
from dreamer_study.reports.text.ratios import scores, short_interval, short_ratio, yes_or_no
from dreamer_study.sql.names import AVERAGE

ESCAPED = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|#"})


def summary(data: StudyData) -> str:
    """Summarise a study in Markdown."""
    first = first_screen(data, styles(data.variants))
    parts = [
        f"# {_plain(data.study['study_id'])}",
        *map(_plain, first.sentences),
        *map(_plain, first.second),
        "\n".join(f"* {_plain(warning)}" for warning in first.warnings),
        _ratios(data),
        *_curves(data),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _ratios(data: StudyData) -> str:
    """Tabulate the ratios of tokens, on the averages and on every task."""
    has_number = data.ratios[["ratio", "low", "high"]].notna().any(axis=1)
    rows = data.ratios[has_number]
    if rows.empty:
        return ""
    cells = []
    for row in rows.to_dict("records"):
        cells.append(
            [
                depth_name(row["depth"], short=True),
                row["variant"],
                task_name(row["task"]),
                row["metric"],
                short_ratio(row),
                short_interval(row),
                scores(row),
                yes_or_no(row["significant"]),
            ]
        )
    head = [
        "Depth",
        "Model",
        "Benchmark",
        "Measure",
        f"Tokens over {data.baseline}’s",
        "95 % CI",
        "Scores",
        "Significant",
    ]
    return _table(head, cells)


def _curves(data: StudyData) -> list[str]:
    """Tabulate the average accuracy of each depth, or that of each task where there is no average.

    A row for each checkpoint, a column for each model.
    """
    curve = data.curve
    is_average = curve["task"] == AVERAGE
    if is_average.any():
        curve = curve[is_average]
    parts = []
    for (depth, task), part in curve.groupby(["depth", "task"]):
        grid = part.pivot_table(index="tokens", columns="variant", values="accuracy")
        grid = grid[[variant for variant in data.variants if variant in grid]]
        grid = grid.map(lambda value: "" if pd.isna(value) else f"{value:.3g}")
        cells = [
            [tokens(count), *row] for count, row in zip(grid.index, grid.to_numpy(), strict=True)
        ]
        at_depth = f" at {depth_name(depth).lower()}" if len(data.depths) > 1 else ""
        parts.append(f"Accuracy{at_depth}, {_plain(task_name(task))}:")
        parts.append(_table(["Tokens", *grid], cells))
    return parts


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [[_plain(cell) for cell in line] for line in (head, *rows)]
    return "\n".join(
        f"| {' | '.join(line)} |" for line in (lines[0], ["---"] * len(head), *lines[1:])
    )


def _plain(text: str) -> str:
    """Escape what Markdown would take for marks: names come from study files and data."""
    return str(text).translate(ESCAPED)
