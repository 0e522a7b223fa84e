"""Tabulate resources and results (the paper's Tables 1 and 2), and the numbers behind figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
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
from dreamer_study.reports.text.numbers import NOTHING, THIN, duration, number, percent, ratio
from dreamer_study.sql.names import AVERAGE

NEAR = 0.05  # of their tokens: checkpoints of two models so near have one row
BOUNDS = {"at least": f"≤{THIN}", "at most": f"≥{THIN}"}  # of the ratio, by that of the factor


def resources(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Tabulate the view `table_1` with the differences from the baseline of the same depth."""
    columns = ("parameters_billion", "flops_billion_per_token", "memory_gigabytes")
    units = [
        _unit(rows[column], letters)
        for column, letters in zip(columns, ("BMK", "BMK", "GMK"), strict=True)
    ]
    has_mfu = bool(rows["mfu"].notna().any())
    baseline = baseline_of(rows)
    baselines = {row["depth"]: row for row in rows[rows["variant"] == baseline].to_dict("records")}
    body = []
    for row in ordered(rows, styles).to_dict("records"):
        base = {} if row["variant"] == baseline else baselines.get(row["depth"], {})
        cells = model_cells(row["variant"], row["depth"], styles)
        for column, (scale, _, decimals) in zip(columns, units, strict=True):
            value = number(row[column] * scale, decimals)
            cells.append(Cell(value, note=_difference(row[column], base.get(column))))
        cells.append(number(row["tokens_per_second"]))
        if has_mfu:
            cells.append(percent(row["mfu"]))
        body.append((row["depth"], cells))
    parameters, flops, memory = (letter for _, letter, _ in units)
    heads = [
        left("Model"),
        "Depth",
        f"Parameters ({parameters})",
        f"FLOPs ({flops} per token)",
        f"Memory ({memory}B)",
        "Tokens per second",
    ]
    speed = "Speed is that of training"
    if has_mfu:
        heads.append("MFU")
        speed += ", as is the model FLOPs utilisation (MFU)"
    return table(
        "table-1",
        "FLOPs per token and memory are those of generating a sequence. Shares are the difference"
        f" from {baseline} of the same depth. {speed}.",
        heads,
        body,
    )


def _unit(values: pd.Series, letters: str) -> tuple[float, str, int]:
    """Return scale, letter and decimals in which values in billions read well."""
    largest = values.abs().max()
    if pd.isna(largest) or largest >= 0.1:
        return 1.0, letters[0], 4
    if largest >= 1e-4:
        return 1e3, letters[1], 3
    return 1e6, letters[2], 1


def _difference(value: Any, base: Any) -> str:
    """Format the difference from a base in per cent; empty where either is unknown."""
    if pd.isna(value) or pd.isna(base) or not base:
        return ""
    return f"{100 * (value / base - 1):+.2f}%".replace("-", "−")


OF_TOKENS = (
    f"≤{THIN}reached at the first checkpoint; ≥{THIN}not reached; † the baseline is within two"
    " standard errors of chance."
)


def results(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Tabulate the view `table_2`: perplexities, best accuracies, ratios of tokens.

    The best and the second best of a depth are marked.
    """
    has_perplexity = rows["perplexity"].notna()
    has_accuracy = rows["metric"].notna() & ~has_perplexity | (rows["task"] == AVERAGE)
    texts = task_order(rows[has_perplexity]["task"])
    tasks = task_order(rows[has_accuracy]["task"])
    score = (-rows["perplexity"]).fillna(rows["accuracy"]).round(6)
    # A task may have two rows of a model: one with its perplexity, one with its accuracy.
    scores = score.groupby([rows["depth"], rows["task"], has_perplexity])
    rank = scores.rank(method="dense", ascending=False).where(scores.transform("count") > 1)
    marked = rows.assign(kind=rank.map({1: "best", 2: "second"}).fillna(""))
    by_cell = {
        (row["depth"], row["variant"], row["task"], pd.notna(row["perplexity"])): row
        for row in marked.to_dict("records")
    }
    models = ordered(rows, styles)[["depth", "variant"]].drop_duplicates()
    # the tokens to the baseline's best are for a benchmark on which a variant had it
    others = rows[rows["variant"] != rows["baseline"]]
    has_tokens = set(others.loc[others["bound"].isin(["exact", "at least"]), "task"])
    body = []
    previous_depth = None
    for depth, variant in models.itertuples(index=False):
        cells = model_cells(variant, depth, styles)
        for text in texts:
            row = by_cell.get((depth, variant, text, True), {})
            cells.append(Cell(number(row.get("perplexity"), 2), kind=row.get("kind", "")))
        for task in tasks:
            row = by_cell.get((depth, variant, task, False), {})
            cells.append(Cell(percent(row.get("accuracy")).rstrip("%"), kind=row.get("kind", "")))
            if task not in has_tokens:
                continue
            bound = BOUNDS.get(row.get("bound"), "")
            flag = "†" if row.get("near_chance") is True else ""
            cells.append(Cell(f"{bound}{_tokens(row.get('data_efficiency'))}{flag}", kind="quiet"))
        body.append(Row(tuple(cells), first=previous_depth not in (None, depth)))
        previous_depth = depth
    top = [Cell("Model", kind="left", scope="col", rows=2), Cell("Depth", scope="col", rows=2)]
    top += [Cell(task_name(text), scope="col") for text in texts]
    for task in tasks:
        span = 2 if task in has_tokens else 1
        top.append(Cell(task_name(task), scope="colgroup" if span > 1 else "col", span=span))
    second = [Cell("PPL ↓", scope="col") for _ in texts]
    for _ in tasks:
        second.append(Cell("Acc ↑", scope="col"))
        if task in has_tokens:
            second.append(Cell("Tokens ↓", scope="col"))
    return Table(
        name="table-2",
        caption=" ".join(_what_results_are(rows, bool(texts), bool(has_tokens))),
        head=(tuple(top), tuple(second)),
        rows=tuple(body),
        notes=(OF_TOKENS,) if has_tokens else (),
    )


def _what_results_are(rows: pd.DataFrame, has_perplexity: bool, has_tokens: bool) -> Iterator[str]:
    """Yield the sentences of the caption: what the columns are that the table has."""
    scores = "perplexity (PPL), accuracy" if has_perplexity else "accuracy"
    yield f"Table 2 of the paper. Best over all checkpoints: {scores} in per cent (Acc)."
    baseline = baseline_of(rows)
    if has_tokens:
        yield (
            f"Tokens: by the paper’s rule, those to {baseline}’s best accuracy over {baseline}’s"
            " own."
        )
    yield "Bold: best of its depth; underlined: second."


def _tokens(efficiency: Any) -> str:
    """Format the tokens over the baseline's, which are one over the paper's data efficiency."""
    if pd.isna(efficiency):
        return NOTHING
    return ratio(1 / efficiency if efficiency else math.inf)


def benchmarks(
    accuracy: pd.DataFrame,
    loss: pd.DataFrame,
    perplexity: pd.DataFrame,
    versions: pd.DataFrame,
    sentences: Mapping[str, str],
) -> Table:
    """Tabulate what each number is: metric, filter, items, chance level and task version.

    `sentences` say what a benchmark asks; each stands in the first row of its benchmark.
    """
    said = set()
    body = []
    for frame, measure in ((accuracy, "accuracy"), (loss, "loss"), (perplexity, "perplexity")):
        for task, part in frame[frame["task"] != AVERAGE].groupby("task"):
            first = part.iloc[0]
            items = part["items"].dropna()
            counts = dict.fromkeys((number(items.min()), number(items.max())))
            of_task = versions[versions["task"] == task]["task_version"].dropna()
            task_versions = sorted({str(version) for version in of_task})
            sentence = "" if task in said else sentences.get(task, "")
            said.add(task)
            cells = [
                task_name(task),
                Cell(sentence, kind="long"),
                measure,
                str(first["metric"]),
                str(first["filter"]),
                " to ".join(counts),
                percent(part["chance"].max()) if measure == "accuracy" else "",
                ", ".join(task_versions) or NOTHING,
            ]
            body.append((None, cells))
    return table(
        "table-benchmarks",
        "The metric that stands for each benchmark, the items asked of each checkpoint, the level"
        " of chance.",
        [
            left("Benchmark"),
            left("What is asked"),
            left("Measure"),
            left("Metric"),
            left("Filter"),
            "Items",
            "Chance",
            left("Task version"),
        ],
        body,
    )


def levels(rows: pd.DataFrame) -> Table:
    """Tabulate the card of each benchmark: what is known of it before training."""
    body = []
    for row in rows.to_dict("records"):
        has_floor = pd.notna(row["floor"])
        floor = Cell(percent(row["floor"]), note=row["floor_rule"] or "") if has_floor else NOTHING
        cells = [
            task_name(row["task"]),
            percent(row["ceiling"]),
            number(row["failed"]),
            percent(row["chance"]),
            percent(row["trivial"]),
            floor,
            ratio(row["detectable"]),
            duration(row["seconds"]),
        ]
        body.append((None, cells))
    return table(
        "table-levels",
        "What is known of each benchmark before training. A model scores from chance (guessing,"
        " or the best trivial rule where that scores more) to the ceiling, the share of the gold"
        " answers that the benchmark's own scorer calls right. Can detect in advance: the ratio"
        " that four of five such studies detect by this benchmark alone, with the noise of the demo"
        " and this benchmark's items; the tables of ratios have what this study's own noise lets it"
        " detect. Evaluation: of one checkpoint on one device, by its tokens.",
        [
            left("Benchmark"),
            "Ceiling",
            "Gold answers called wrong",
            "Guessing",
            "Trivial rule",
            "Chance",
            "Can detect in advance",
            "Evaluation",
        ],
        body,
    )


def curve_numbers(curve: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Table:
    """Tabulate one depth's accuracy figure.

    A row for each task and checkpoint, a column for each variant.
    """
    curve = curve[curve["depth"] == depth]
    variants = present(styles, curve)
    body = []
    for task in task_order(curve["task"]):
        part = curve[curve["task"] == task]
        near = _together(part["tokens"])
        shown = {
            (near[row["tokens"]], row["variant"]): percent(row["accuracy"], error=_error(row))
            for row in part.to_dict("records")
        }
        for count in dict.fromkeys(near.values()):
            cells = [shown.get((count, variant), NOTHING) for variant in variants]
            body.append((task, [task_name(task), number(count), *cells]))
    return table(
        f"table-curve-{depth}",
        f"{depth_name(depth)}: accuracy at every checkpoint, the mean over the seeds, and its"
        " standard error over seeds and items; one seed has none.",
        [left("Benchmark"), "Tokens", *variants],
        body,
    )


def _together(counts: pd.Series) -> dict[float, float]:
    """Map each count to the lowest one that is within `NEAR` below: they have a row together."""
    first = -math.inf
    rows = {}
    for count in sorted(counts.unique()):
        if count > first * (1 + NEAR) or first < 0:
            first = count
        rows[count] = first
    return rows


def _error(row: Mapping[str, Any]) -> float:
    """Return the standard error of a mean over seeds and items; NaN of one seed."""
    of_items = row.get("stderr", math.nan)
    of_seeds = row.get("seed_error", math.nan)
    return math.hypot(of_seeds, 0 if pd.isna(of_items) else of_items)


def other_depths(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Tabulate the figure of other depths.

    A row for each model and task, a column for each depth.
    """
    rows = mean_of_runs(rows)
    depths = sorted(rows["depth"].unique())
    body = []
    has_seeds = len(rows) and rows["seeds"].max() > 1
    several = ", the mean over the seeds" if has_seeds else ""
    by_model = ordered(rows, styles, "task").groupby(["model_depth", "variant", "task"], sort=False)
    for (trained, variant, task), part in by_model:
        shown = {row["depth"]: row for row in part.to_dict("records")}
        cells = []
        for depth in depths:
            row = shown.get(depth, {})
            text = percent(row.get("accuracy"), error=_error(row))
            cells.append(Cell(text, kind="strong" if depth == trained else ""))
        body.append(((trained, variant), [model_cell(variant, styles), task_name(task), *cells]))
    return table(
        "table-depths",
        f"Accuracy at each depth{several} and its standard error over seeds and items; bold at the"
        " depth that the model was trained at.",
        [left("Model"), left("Benchmark"), *[f"Depth {depth:.0f}" for depth in depths]],
        body,
    )
