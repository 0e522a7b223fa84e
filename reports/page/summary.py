"""Write what a study says in a few lines of Markdown.

These are the answer, what makes the answer weak, factors and curves.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dreamer_study.reports.data import StudyData, without_baseline
from dreamer_study.reports.page.answer import first_screen
from dreamer_study.reports.style.theme import styles
from dreamer_study.reports.text.names import depth_name, task_name
from dreamer_study.reports.text.numbers import interval, ratio, tokens
from dreamer_study.sql.names import AVERAGE

ESCAPED = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|#"})


def summary(data: StudyData) -> str:
    """Summarise a study in Markdown."""
    first = first_screen(data, styles(data.variants))
    parts = [
        f"# {_plain(data.study['study_id'])}",
        *map(_plain, first.sentences),
        "\n".join(f"* {_plain(warning)}" for warning in first.warnings),
        _factors(data),
        *_curves(data),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _factors(data: StudyData) -> str:
    """Tabulate the mean ratios against the baseline, on the average and on every task."""
    rows = without_baseline(data.mean_factors[data.mean_factors["factor"].notna()])
    if rows.empty:
        return ""
    cells = []
    for row in rows.to_dict("records"):
        value = ratio(row["factor"])
        cells.append(
            [
                depth_name(row["depth"], short=True),
                row["variant"],
                task_name(row["task"]),
                row["metric"],
                f"at least {value}" if row["bounded"] else value,
                interval(row),
            ]
        )
    return _table(
        ["Depth", "Model", "Benchmark", "Measure", "Tokens over the baseline’s", "95 % interval"],
        cells,
    )


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
        parts.append(f"Accuracy at {depth_name(depth).lower()}, {_plain(task_name(task))}:")
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
