"""Tabulate the training runs, and the versions of code, data and packages behind the results."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dreamer_study.reports.data import json_object
from dreamer_study.reports.style.theme import Style, ordered
from dreamer_study.reports.tables.cells import Cell, Table, left, model_cells, table
from dreamer_study.reports.text.names import task_name
from dreamer_study.reports.text.numbers import NOTHING, duration, listed, number, percent, tokens


def runs(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Tabulate every training run of the study."""
    has_mfu = bool(rows["mfu"].notna().any())
    body = []
    for row in ordered(rows, styles, "seed", "run_id").to_dict("records"):
        measured = [
            tokens(row["tokens"]),
            duration(row["seconds"]),
            number(row["tokens_per_second"]),
        ]
        if has_mfu:
            measured.append(percent(row["mfu"]))
        cells = [
            *model_cells(row["variant"], row["depth"], styles),
            number(row["seed"]),
            _text(row["status"]),
            *measured,
            _text(row["device"]),
            _text(row["stream_hash"])[:12],
            row["run_id"],
        ]
        body.append((row["depth"], cells))
    measures = ["Tokens", "Time", "Tokens per second"]
    if has_mfu:
        measures.append("MFU")
    caption = "Every run. Equal stream hashes: the same tokens in the same order."
    if (rows["status"] == "screened").any():
        caption += (
            " A screened run was trained for the first part only: another seed of its model had the"
            " lower loss and continued."
        )
    columns = [
        left("Model"),
        "Depth",
        "Seed",
        left("Status"),
        *measures,
        left("Device"),
        left("Stream"),
        left("Run"),
    ]
    return table("table-runs", caption, columns, body)


def versions(evaluated: pd.DataFrame, code: str | None, packages: Mapping[str, str]) -> Table:
    """Tabulate the versions of a study and of its evaluations.

    A study has code and packages; evaluations have code, harness, data and packages. `evaluated`
    has the distinct rows of `evaluation_versions` without their checkpoints.
    """
    lines = []  # each a group, a name and a version
    if code:
        lines.append(("study", "Study code", code))
    columns = {
        "weights": "Weights",
        "code_version": "Evaluation code",
        "harness_version": "Harness",
    }
    for column, name in columns.items():
        for value in sorted(evaluated[column].dropna().unique()):
            lines.append(("evaluations", name, value))
    for task, part in evaluated.groupby("task"):
        data = sorted(part["data_version"].dropna().unique())
        if data:
            lines.append(("data", f"Data: {task_name(task)}", listed(data)))
    if packages:
        lines.append(("packages", "Study packages", _package_list(packages)))
    for text in sorted(evaluated["packages"].dropna().unique()):
        versions_by_package = json_object(text)
        if versions_by_package:
            lines.append(("packages", "Evaluation packages", _package_list(versions_by_package)))
    return table(
        "table-versions",
        "What made the numbers on this page; several lines of one kind where not all were made by"
        " the same.",
        [left("What"), left("Version")],
        [(group, [name, Cell(value, kind="long")]) for group, name, value in lines],
    )


def _package_list(packages: Mapping[str, str]) -> str:
    return ", ".join(f"{package} {version}" for package, version in sorted(packages.items()))


def _text(value: object) -> str:
    """Return a text of the results, a dash for null."""
    return NOTHING if pd.isna(value) else str(value)
