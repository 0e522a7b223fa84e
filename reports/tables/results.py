"""Tabulate resources and results (the paper's Tables 1 and 2), what was measured, and the numbers
behind figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import baseline_of, mean_of_runs
from dreamer_study.reports.style.theme import Style, ordered, present
from dreamer_study.reports.tables.cells import (
    Cell,
    Row,
    Table,
    left,
    model_cell,
    model_cells,
    table,
)
from dreamer_study.reports.text.names import depth_name, task_name, task_order
from dreamer_study.reports.text.numbers import NOTHING, THIN, number, percent, ratio
from dreamer_study.sql.names import AVERAGE

BOUNDS = {"at least": f"≤{THIN}", "at most": f"≥{THIN}"}  # of the ratio, by that of the factor


def resources(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Tabulate the view `table_1` with the differences from the baseline of the same depth, and
    measured speeds."""
    columns = ("parameters_billion", "flops_billion_per_token", "memory_gigabytes")
    units = [
        _unit(rows[column], letters)
        for column, letters in zip(columns, ("BMK", "BMK", "GMK"), strict=True)
    ]
    measured = bool(rows["mfu"].notna().any())
    baseline = baseline_of(rows)
    baselines = {row["depth"]: row for row in rows[rows["variant"] == baseline].to_dict("records")}
    body = []
    for row in ordered(rows, styles).to_dict("records"):
        base = {} if row["variant"] == baseline else baselines.get(row["depth"], {})
        cells = model_cells(row["variant"], row["depth"], styles)
        for column, (scale, _, decimals) in zip(columns, units, strict=True):
            cells.append(
                Cell(
                    number(row[column] * scale, decimals),
                    note=_difference(row[column], base.get(column)),
                )
            )
        cells += [number(row["tokens_per_second"]), *[percent(row["mfu"])] * measured]
        body.append((row["depth"], cells))
    names = [
        f"Parameters ({units[0][1]})",
        f"FLOPs ({units[1][1]} per token)",
        f"Memory ({units[2][1]}B)",
    ]
    return table(
        "table-1",
        "FLOPs per token and memory are those of generating a sequence. Shares are the difference"
        f" from {baseline} of the same depth. Speed is that of"
        f" training{', as is the model FLOPs utilisation (MFU)' * measured}.",
        [left("Model"), "Depth", *names, "Tokens per second", *["MFU"] * measured],
        body,
    )


def _unit(values: pd.Series, letters: str) -> tuple[float, str, int]:
    """Return scale, letter and decimals in which values in billions read well."""
    largest = values.abs().max()
    if pd.isna(largest) or largest >= 0.1:
        return 1.0, letters[0], 4
    return (1e3, letters[1], 3) if largest >= 1e-4 else (1e6, letters[2], 1)


def _difference(value: Any, base: Any) -> str:
    return (
        ""
        if pd.isna(value) or pd.isna(base) or not base
        else f"{100 * (value / base - 1):+.2f}%".replace("-", "−")
    )


def results(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Tabulate the view `table_2`: perplexities, best accuracies, ratios of tokens; best and second
    best are marked."""
    texts = task_order(rows[rows["perplexity"].notna()]["task"])
    tasks = task_order(
        rows[rows["metric"].notna() & rows["perplexity"].isna() | (rows["task"] == AVERAGE)]["task"]
    )
    score = (-rows["perplexity"]).fillna(rows["accuracy"]).round(6)
    # A task may have two rows of a model: one with its perplexity, one with its accuracy.
    scores = score.groupby([rows["depth"], rows["task"], rows["perplexity"].notna()])
    place = scores.rank(method="dense", ascending=False).where(scores.transform("count") > 1)
    by_cell = {
        (row["depth"], row["variant"], row["task"], pd.notna(row["perplexity"])): row
        for row in rows.assign(kind=place.map({1: "best", 2: "second"}).fillna("")).to_dict(
            "records"
        )
    }
    body, before = [], None
    for depth, variant in (
        ordered(rows, styles)[["depth", "variant"]].drop_duplicates().itertuples(index=False)
    ):
        cells = model_cells(variant, depth, styles)
        for text in texts:
            row = by_cell.get((depth, variant, text, True), {})
            cells.append(Cell(number(row.get("perplexity"), 2), kind=row.get("kind", "")))
        for task in tasks:
            row = by_cell.get((depth, variant, task, False), {})
            flag = "†" if row.get("near_chance") is True else ""
            shown = BOUNDS.get(row.get("bound"), "") + ratio(row.get("data_efficiency")) + flag
            cells.append(Cell(percent(row.get("accuracy")).rstrip("%"), kind=row.get("kind", "")))
            cells.append(Cell(shown, kind="quiet"))
        body.append(Row(tuple(cells), first=before not in (None, depth)))
        before = depth
    top = [Cell("Model", kind="left", scope="col", rows=2), Cell("Depth", scope="col", rows=2)]
    top += [Cell(task_name(text), scope="col") for text in texts]
    top += [Cell(task_name(task), scope="colgroup", span=2) for task in tasks]
    second = [
        Cell(name, scope="col")
        for name in ("PPL ↓",) * len(texts) + ("Acc ↑", "Tokens ↓") * len(tasks)
    ]
    return Table(
        name="table-2",
        caption=(
            "Table 2 of the paper. Best over all checkpoints: perplexity (PPL), accuracy in per"
            f" cent (Acc). Tokens: by the paper’s rule, those to {baseline_of(rows)}’s best"
            f" accuracy over {baseline_of(rows)}’s own. Bold: best of its depth; underlined:"
            " second."
        ),
        head=(tuple(top), tuple(second)),
        rows=tuple(body),
        notes=(
            (
                f"≤{THIN}reached at the first checkpoint; ≥{THIN}not reached; † the baseline is"
                " within two standard errors of chance."
            ),
        ),
    )


def benchmarks(
    accuracy: pd.DataFrame, loss: pd.DataFrame, perplexity: pd.DataFrame, versions: pd.DataFrame
) -> Table:
    """Tabulate what each number is: metric, filter, items, chance level and task version."""
    body = []
    for frame, measure in ((accuracy, "accuracy"), (loss, "loss"), (perplexity, "perplexity")):
        for task, part in frame[frame["task"] != AVERAGE].groupby("task"):
            found = sorted(
                {str(v) for v in versions[versions["task"] == task]["task_version"].dropna()}
            )
            items, first = part["items"].dropna(), part.iloc[0]
            counts = " to ".join(dict.fromkeys((number(items.min()), number(items.max()))))
            chance = percent(part["chance"].max()) if measure == "accuracy" else ""
            cells = [
                task_name(task),
                measure,
                str(first["metric"]),
                str(first["filter"]),
                counts,
                chance,
            ]
            body.append((None, [*cells, ", ".join(found) or NOTHING]))
    return table(
        "table-benchmarks",
        "The metric that stands for each benchmark, the items asked of each checkpoint, the level"
        " of chance.",
        [
            left("Benchmark"),
            left("Measure"),
            left("Metric"),
            left("Filter"),
            "Items",
            "Chance",
            left("Task version"),
        ],
        body,
    )


def curve_numbers(curve: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Table:
    """Tabulate one depth's accuracy figure: a row for each task and checkpoint, a column for each
    variant."""
    curve = curve[curve["depth"] == depth]
    variants = present(styles, curve)
    body = []
    for task in task_order(curve["task"]):
        part = curve[curve["task"] == task]
        shown = {
            (row["tokens"], row["variant"]): percent(row["accuracy"], error=row["stderr"])
            for row in part.to_dict("records")
        }
        for count in sorted(part["tokens"].unique()):
            cells = [shown.get((count, variant), NOTHING) for variant in variants]
            body.append((task, [task_name(task), number(count), *cells]))
    return table(
        f"table-curve-{depth}",
        f"{depth_name(depth)}: accuracy at every checkpoint and its standard error; the mean of"
        " several seeds.",
        [left("Benchmark"), "Tokens", *variants],
        body,
    )


def other_depths(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Tabulate the figure of other depths: a row for each model and task, a column for each
    depth."""
    rows = mean_of_runs(rows)
    depths = sorted(rows["depth"].unique())
    body = []
    several = ", the mean over the seeds" * bool(len(rows) and rows["runs"].max() > 1)
    by_model = ordered(rows, styles, "task").groupby(["model_depth", "variant", "task"], sort=False)
    for (trained, variant, task), part in by_model:
        shown = {row["depth"]: row for row in part.to_dict("records")}
        cells = []
        for depth in depths:
            row = shown.get(depth, {})
            text = percent(row.get("accuracy"), error=row.get("stderr"))
            cells.append(Cell(text, kind="strong" if depth == trained else ""))
        body.append(((trained, variant), [model_cell(variant, styles), task_name(task), *cells]))
    return table(
        "table-depths",
        f"Accuracy at each depth and its standard error{several}; bold at the depth that the model"
        " was trained at.",
        [left("Model"), left("Benchmark"), *[f"Depth {depth:.0f}" for depth in depths]],
        body,
    )
