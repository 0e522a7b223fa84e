"""The longer tables of a report: what was measured and run, the numbers behind figures, the experts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from reports.tables import Cell, Row, Table, grouped, heads, left, model_cells, ordered, plus_minus, task_columns
from reports.theme import Style
from reports.words import AVERAGE, depth_name, duration, listed, missing, number, percent, task_name, tokens


def benchmarks(accuracy: pd.DataFrame, perplexity: pd.DataFrame, versions: pd.DataFrame) -> Table:
    """What each number is: metric, filter, items, chance level and task version."""
    frames = [(accuracy[accuracy["task"] != AVERAGE], "accuracy"), (perplexity.assign(chance=None), "perplexity")]
    body = []
    for frame, kind in frames:
        for task, part in frame.groupby("task"):
            found = sorted({str(v) for v in versions[versions["task"] == task]["task_version"] if not missing(v)})
            counts = sorted({int(n) for n in part["items"].dropna()})
            row = part.iloc[0]
            cells = [
                Cell(task_name(task), kind="left", scope="row"),
                left(kind),
                left(str(row["metric"])),
                left(str(row["filter"])),
            ]
            items = "–" if not counts else f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
            chance = percent(row["chance"]) if kind == "accuracy" else ""
            body.append(Row((*cells, Cell(items), Cell(chance), left(", ".join(found) or "–"))))
    return Table(
        name="table-benchmarks",
        caption="The metric that stands for each benchmark, the items asked of each checkpoint, the level of chance.",
        head=(heads("<Benchmark", "<Measure", "<Metric", "<Filter", "Items", "Chance", "<Task version"),),
        rows=tuple(body),
    )


def curve_numbers(curve: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Table:
    """The numbers of one depth's accuracy figure: a row for each task and checkpoint, a column for each variant."""
    curve = curve[curve["depth"] == depth]
    variants = [name for name in styles if name in set(curve["variant"])]
    body = []
    for task in task_columns(curve["task"]):
        part = curve[curve["task"] == task]
        values = {(row.tokens, row.variant): row for row in part.itertuples()}
        for count in sorted(part["tokens"].unique()):
            found = [values.get((count, variant)) for variant in variants]
            cells = [
                Cell("–") if row is None else Cell(f"{percent(row.accuracy)}{plus_minus(row.stderr)}") for row in found
            ]
            body.append((task, [Cell(task_name(task), kind="left", scope="row"), Cell(number(count)), *cells]))
    return Table(
        name=f"table-curve-{depth}",
        caption=f"{depth_name(depth)}: accuracy at every checkpoint and its standard error; the mean of several seeds.",
        head=(heads("<Benchmark", "Tokens", *variants),),
        rows=grouped(body),
    )


def runs(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Every training run of the study."""
    measured = bool(rows["mfu"].notna().any())
    body = []
    for row in ordered(rows, styles, "seed", "run_id").to_dict("records"):
        status, device, stream, run = (
            left("–" if missing(row[key]) else str(row[key])) for key in ("status", "device", "stream_hash", "run_id")
        )
        cells = [
            *model_cells(row["variant"], row["depth"], styles),
            Cell(number(row["seed"])),
            status,
            Cell(tokens(row["tokens"])),
            Cell(duration(row["seconds"])),
            Cell(number(row["tokens_per_second"])),
            *[Cell(percent(row["mfu"]))] * measured,
            device,
            replace(stream, text=stream.text[:12]),
            run,
        ]
        body.append((row["depth"], cells))
    mfu = ["MFU"] * measured
    names = (
        "<Model",
        "Depth",
        "Seed",
        "<Status",
        "Tokens",
        "Time",
        "Tokens per second",
        *mfu,
        "<Device",
        "<Stream",
        "<Run",
    )
    screened = (
        " A screened run was trained for the first part only: another seed of its model had the lower loss and went on."
        if (rows["status"] == "screened").any()
        else ""
    )
    caption = f"Every run. Equal stream hashes: the same tokens in the same order.{screened}"
    return Table("table-runs", caption, (heads(*names),), grouped(body))


def experts(gini: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """How evenly the experts of each run are used, over the whole model, at its last checkpoint with counts."""
    body = []
    for row in ordered(gini[gini["depth"].isna()], styles, "run_id").to_dict("records"):
        counts = [number(row["gini"], 3), number(row["experts"]), number(row["experts_used"]), tokens(row["tokens"])]
        cells = [*model_cells(row["variant"], row["model_depth"], styles), *[Cell(count) for count in counts]]
        body.append((row["model_depth"], [*cells, left(str(row["run_id"]))]))
    return Table(
        name="table-experts",
        caption="Balance over all depths. A Gini coefficient of 0 is perfectly even use, 1 the use of a single expert.",
        head=(heads("<Model", "Depth", "Gini", "Experts", "Used", "At tokens", "<Run"),),
        rows=grouped(body),
    )


def versions(code: str | None, packages: Mapping[str, str], evaluated: pd.DataFrame) -> Table:
    """What made the numbers: the study's code and packages, and those of the evaluations with their data and harness.

    `evaluated` has the distinct rows of `evaluation_versions` without their checkpoints.
    """
    body = [("study", "Study code", code)] if code else []
    for column, name in (("code_version", "Evaluation code"), ("harness_version", "Harness")):
        body += [("evaluations", name, value) for value in sorted(evaluated[column].dropna().unique())]
    for task, part in evaluated.groupby("task"):
        found = sorted(part["data_version"].dropna().unique())
        body += [("data", f"Data: {task_name(task)}", listed(found))] if found else []
    said = [("Study packages", dict(packages))]
    said += [("Evaluation packages", _packages(text)) for text in sorted(evaluated["packages"].dropna().unique())]
    body += [
        ("packages", name, ", ".join(f"{package} {found[package]}" for package in sorted(found)))
        for name, found in said
        if found
    ]
    rows = [(group, [Cell(name, kind="left", scope="row"), Cell(value, kind="long")]) for group, name, value in body]
    return Table(
        name="table-versions",
        caption="What made the numbers on this page; several lines of one kind where not all were made by the same.",
        head=(heads("<What", "<Version"),),
        rows=grouped(rows),
    )


def _packages(text: str) -> dict[str, str]:
    """Packages as an evaluation has them; empty when they are not a JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
