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
    mfu = ["MFU"] if rows["mfu"].notna().any() else []
    body = []
    for row in ordered(rows, styles, "seed", "run_id").to_dict("records"):
        text = {
            key: NOTHING if pd.isna(row[key]) else str(row[key])
            for key in ("status", "device", "stream_hash")
        }
        cells = [
            *model_cells(row["variant"], row["depth"], styles),
            number(row["seed"]),
            text["status"],
            tokens(row["tokens"]),
            duration(row["seconds"]),
            number(row["tokens_per_second"]),
            *[percent(row["mfu"]) for _ in mfu],
            text["device"],
            text["stream_hash"][:12],
            row["run_id"],
        ]
        body.append((row["depth"], cells))
    measures = ["Tokens", "Time", "Tokens per second", *mfu]
    screened = (
        " A screened run was trained for the first part only: another seed of its model had the"
        " lower loss and went on."
        if (rows["status"] == "screened").any()
        else ""
    )
    caption = f"Every run. Equal stream hashes: the same tokens in the same order.{screened}"
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
    """Tabulate code and packages of the study, and code, harness, data and packages of its
    evaluations.

    `evaluated` has the distinct rows of `evaluation_versions` without their checkpoints.
    """
    found = [("study", "Study code", code)] if code else []
    for column, name in (
        ("weights", "Weights"),
        ("code_version", "Evaluation code"),
        ("harness_version", "Harness"),
    ):
        found += [
            ("evaluations", name, value) for value in sorted(evaluated[column].dropna().unique())
        ]
    for task, part in evaluated.groupby("task"):
        data = sorted(part["data_version"].dropna().unique())
        found += [("data", f"Data: {task_name(task)}", listed(data))] if data else []
    used = [("Study packages", packages)]
    used += [
        ("Evaluation packages", json_object(text))
        for text in sorted(evaluated["packages"].dropna().unique())
    ]
    found += [
        (
            "packages",
            name,
            ", ".join(f"{package} {version}" for package, version in sorted(names.items())),
        )
        for name, names in used
        if names
    ]
    return table(
        "table-versions",
        "What made the numbers on this page; several lines of one kind where not all were made by"
        " the same.",
        [left("What"), left("Version")],
        [(group, [name, Cell(value, kind="long")]) for group, name, value in found],
    )
