"""The tables of a report as plain data for the template: cells with a text, a note below it, and what they head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from reports.theme import BASELINE, Style
from reports.words import (
    AVERAGE,
    THIN,
    depth_name,
    factor,
    interval,
    missing,
    number,
    percent,
    task_name,
    tokens,
)

# Why a curve could not be fitted, by its status.
UNFITTED = {"too few points": "has too few checkpoints", "near chance": "is near chance", "flat": "shows no clear rise"}
LOW_BOUND, HIGH_BOUND = f"≥{THIN}", f"≤{THIN}"


@dataclass(frozen=True)
class Cell:
    """`scope` makes it a header of its row or column; `kind` is a style sheet's class; `mark` a variant's marker."""

    text: str
    note: str = ""
    kind: str = ""
    scope: str = ""
    span: int = 1
    rows: int = 1
    mark: Style | None = None


@dataclass(frozen=True)
class Row:
    """`first` begins a new group of rows."""

    cells: tuple[Cell, ...]
    first: bool = False


@dataclass(frozen=True)
class Table:
    """`name` is its anchor; `notes` stand below it."""

    name: str
    caption: str
    head: tuple[tuple[Cell, ...], ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def heads(*names: str) -> tuple[Cell, ...]:
    """Column heads; a name that begins with `<` is set to the left."""
    return tuple(Cell(name.lstrip("<"), kind="left" if name.startswith("<") else "", scope="col") for name in names)


def left(text: str) -> Cell:
    return Cell(text, kind="left")


def model_cells(variant: str, depth: int, styles: Mapping[str, Style]) -> list[Cell]:
    """The first two cells of a row about a model: its name as the row's head, and its depth."""
    return [model_cell(variant, styles), Cell(depth_name(depth, short=True))]


def model_cell(variant: str, styles: Mapping[str, Style]) -> Cell:
    """The head of a row about a variant."""
    return Cell(variant, kind="left", scope="row", mark=styles.get(variant))


def ordered(frame: pd.DataFrame, styles: Mapping[str, Style], *keys: str) -> pd.DataFrame:
    """Rows by depth, then in the report's order of the variants, then by further keys."""
    rank = {name: i for i, name in enumerate(styles)}
    column = "model_depth" if "model_depth" in frame.columns else "depth"
    place = frame["variant"].map(rank).fillna(len(rank))
    return frame.assign(place=place).sort_values([column, "place", *keys]).drop(columns="place")


def grouped(rows: Iterable[tuple[Any, Sequence[Cell]]]) -> tuple[Row, ...]:
    """Rows with a line above each first one of a new group."""
    made, before = [], object()
    for group, cells in rows:
        made.append(Row(tuple(cells), first=bool(made) and group != before))
        before = group
    return tuple(made)


def task_columns(tasks: Iterable[str]) -> list[str]:
    """Tasks by name, the average last, as in the paper's tables."""
    return sorted(set(tasks), key=lambda task: (task == AVERAGE, task_name(task)))


def plus_minus(error: Any) -> str:
    """A standard error of a share to stand behind it, in per cent; nothing for null."""
    return "" if missing(error) else f" ± {100 * error:.1f}"


def factors(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int, rule: str = "first") -> Table:
    """Variants by tasks: the data-efficiency factors of one depth with their intervals."""
    rows = rows[rows["depth"] == depth]
    tasks = task_columns(rows["task"])
    by_cell = {(row["variant"], row["task"]): row for row in rows.to_dict("records")}
    body, flagged = [], False
    for variant in ordered(rows, styles)["variant"].unique():
        cells = [model_cell(variant, styles)]
        for task in tasks:
            row = by_cell.get((variant, task), {})
            flagged |= bool(row.get("near_chance"))
            cell = _baseline_cell(row) if variant == BASELINE else _factor_cell(row)
            cells.append(replace(cell, kind="strong" if task == AVERAGE else ""))
        body.append(Row(tuple(cells)))
    how = "" if rule == "first" else ", the crossing interpolated in log tokens between checkpoints"
    notes = [
        "† the baseline’s best accuracy is within two standard errors of chance: the factor says little."
    ] * flagged
    return Table(
        name=f"table-factors-{rule}-{depth}",
        caption=(
            f"{depth_name(depth)}: how many times fewer training tokens than {BASELINE} each variant needs to reach "
            f"{BASELINE}’s "
            f"best accuracy{how}. Below each factor its 95% interval; in the row of {BASELINE} its best accuracy and "
            "where it had it."
        ),
        head=(heads("<Model", *map(task_name, tasks)),),
        rows=tuple(body),
        notes=tuple(notes),
    )


def _baseline_cell(row: Mapping[str, Any]) -> Cell:
    if missing(row.get("factor")):
        return Cell("–", note="not evaluated")
    flag = "†" if row["near_chance"] else ""
    return Cell(
        factor(row["factor"]) + flag, note=f"{percent(row['baseline_accuracy'])} at {tokens(row['baseline_tokens'])}"
    )


def _factor_cell(row: Mapping[str, Any]) -> Cell:
    if missing(row.get("factor")):
        return Cell("–", note="not evaluated" if missing(row.get("own_best")) else "no baseline")
    bound = "" if row["bound"] == "exact" else f"{row['bound']} "
    return Cell(
        f"{bound}{factor(row['factor'])}{'†' if row['near_chance'] else ''}", note=interval(row) or "no interval"
    )


def rules(
    by_rule: Mapping[str, pd.DataFrame], fits: pd.DataFrame, styles: Mapping[str, Style], task: str = ""
) -> Table:
    """The factors of one task, or of all tasks, by every rule: a row for each variant and task.

    `by_rule` has a frame of factors under the head of each column; `fits` the rows of `fitted_curves`.
    """
    by_cell = {
        (rule, row["depth"], row["variant"], row["task"]): row
        for rule, rows in by_rule.items()
        for row in rows.to_dict("records")
    }
    states = {(row["depth"], row["variant"], row["task"]): row["status"] for row in fits.to_dict("records")}
    first = next(iter(by_rule.values()))
    chosen = first[(first["variant"] != BASELINE) & first["factor"].notna()]
    chosen = chosen[chosen["task"] == task] if task else chosen
    place = {name: i for i, name in enumerate(task_columns(chosen["task"]))}
    body = []
    for row in ordered(chosen.assign(column=chosen["task"].map(place)), styles, "column").to_dict("records"):
        key = (row["depth"], row["variant"], row["task"])
        cells = model_cells(row["variant"], row["depth"], styles)
        cells += [] if task else [Cell(task_name(row["task"]), kind="left")]
        for rule in by_rule:
            found = by_cell.get((rule, *key), {})
            cells.append(_factor_cell(found) if not missing(found.get("factor")) else _unfitted(key, states))
        body.append((key[0] if task else key[:2], cells))
    names = ["<Model", "Depth", *([] if task else ["<Benchmark"]), *by_rule]
    return Table(
        name=f"table-rules{'' if task else '-all'}",
        caption=(
            f"The factor{_on(task)} by three rules, below each its 95% interval. First crossing: the first checkpoint "
            f"that has {BASELINE}’s best. Interpolated: a straight line in log tokens from the checkpoint before it. "
            f"Fitted: smooth curves through all checkpoints, to 95% of {BASELINE}’s rise on its own curve."
        ),
        head=(heads(*names),),
        rows=grouped(body),
    )


def _on(task: str) -> str:
    return " on the average" if task == AVERAGE else f" on {task_name(task)}" if task else ""


def _unfitted(key: tuple[int, str, str], states: Mapping[tuple[int, str, str], str]) -> Cell:
    """Why there is no factor on the fitted curves: the state of the variant's curve or of the baseline's."""
    depth, variant, task = key
    for name in (BASELINE, variant):
        state = states.get((depth, name, task), "fitted")
        if state != "fitted":
            return Cell("–", note=f"no curve: {name} {UNFITTED.get(state, state)}")
    return Cell("–", note="not computed")


def compute(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """The factors on the average in tokens, in FLOPs and in seconds of training."""
    rows = ordered(
        rows[(rows["task"] == AVERAGE) & (rows["variant"] != BASELINE) & rows["factor_tokens"].notna()], styles
    )
    body = []
    for row in rows.to_dict("records"):
        bound = "" if row["bound"] == "exact" else f"{row['bound']} "
        values = (row["factor_tokens"], row["factor_flops"], row["factor_seconds"])
        cells = [Cell("–" if missing(v) else f"{bound}{factor(v)}") for v in values]
        body.append((row["depth"], [*model_cells(row["variant"], row["depth"], styles), *cells]))
    return Table(
        name="table-compute",
        caption=(
            "The average’s factors counted in training tokens, in FLOPs, and in seconds of training at the speeds "
            "measured in this "
            "study. A variant that trains more slowly gains less in time than in tokens."
        ),
        head=(heads("<Model", "Depth", "Tokens", "FLOPs", "Time"),),
        rows=grouped(body),
    )


def resources(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """The paper's Table 1 with the differences from the baseline of the same depth, and measured speeds."""
    columns = ["parameters_billion", "flops_billion_per_token", "memory_gigabytes"]
    units = [_unit(rows[column], names) for column, names in zip(columns, ("BMK", "BMK", "GMK"), strict=True)]
    measured = bool(rows["mfu"].notna().any())
    rows = ordered(rows, styles)
    baselines = {row["depth"]: row for row in rows[rows["variant"] == BASELINE].to_dict("records")}
    body = []
    for row in rows.to_dict("records"):
        base = {} if row["variant"] == BASELINE else baselines.get(row["depth"], {})
        cells = model_cells(row["variant"], row["depth"], styles)
        for column, (scale, _, decimals) in zip(columns, units, strict=True):
            cells.append(Cell(number(row[column] * scale, decimals), note=_difference(row[column], base.get(column))))
        cells += [Cell(number(row["tokens_per_second"])), *[Cell(percent(row["mfu"]))] * measured]
        body.append((row["depth"], cells))
    names = [f"Parameters ({units[0][1]})", f"FLOPs ({units[1][1]} per token)", f"Memory ({units[2][1]}B)"]
    return Table(
        name="table-1",
        caption=(
            "FLOPs per token and memory are those of generating a sequence. Below each number is its difference from "
            f"{BASELINE} of the same depth. Speed is that of "
            f"training{', as is the model FLOPs utilisation (MFU)' * measured}."
        ),
        head=(heads("<Model", "Depth", *names, "Tokens per second", *["MFU"] * measured),),
        rows=grouped(body),
    )


def _unit(values: pd.Series, names: str) -> tuple[float, str, int]:
    """Scale, letter and decimals in which values in billions read well."""
    largest = values.abs().max()
    if missing(largest) or largest >= 0.1:
        return 1.0, names[0], 4
    return (1e3, names[1], 3) if largest >= 1e-4 else (1e6, names[2], 1)


def _difference(value: Any, base: Any) -> str:
    return "" if missing(value) or missing(base) or not base else f"{100 * (value / base - 1):+.2f}%".replace("-", "−")


def results(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """The paper's Table 2: perplexities, best accuracies, data efficiency; best and second best of each depth
    marked."""
    texts = sorted(rows[rows["perplexity"].notna()]["task"].unique(), key=task_name)
    tasks = task_columns(rows[rows["metric"].notna() & rows["perplexity"].isna() | (rows["task"] == AVERAGE)]["task"])
    by_cell = {(r["depth"], r["variant"], r["task"]): r for r in rows.to_dict("records")}
    ranks = {
        (depth, task): _two_best(part["perplexity" if task in texts else "accuracy"], lowest=task in texts)
        for (depth, task), part in rows.groupby(["depth", "task"])
    }
    body = []
    for depth, variant in ordered(rows, styles)[["depth", "variant"]].drop_duplicates().itertuples(index=False):
        cells = model_cells(variant, depth, styles)
        for text in texts:
            value = by_cell.get((depth, variant, text), {}).get("perplexity")
            cells.append(Cell(number(value, 2), kind=_mark(value, ranks.get((depth, text)))))
        for task in tasks:
            row = by_cell.get((depth, variant, task), {})
            value = row.get("accuracy")
            shown = "–" if missing(value) else f"{100 * value:.1f}"
            cells.append(Cell(shown, kind=_mark(value, ranks.get((depth, task)))))
            bound = {"at least": LOW_BOUND, "at most": HIGH_BOUND}.get(row.get("bound"), "")
            flag = "†" if row.get("near_chance") is True else ""
            cells.append(Cell(f"{bound}{factor(row.get('data_efficiency'))}{flag}", kind="quiet"))
        body.append((depth, cells))
    top = [Cell("Model", kind="left", scope="col", rows=2), Cell("Depth", scope="col", rows=2)]
    top += [Cell(task_name(text), scope="col") for text in texts]
    top += [Cell(task_name(task), scope="colgroup", span=2) for task in tasks]
    second = [Cell("PPL ↓", scope="col")] * len(texts) + [
        Cell(word, scope="col") for _ in tasks for word in ("Acc ↑", "DE ↑")
    ]
    return Table(
        name="table-2",
        caption=(
            "Best results over all checkpoints: perplexity (PPL), accuracy in per cent (Acc), and data efficiency "
            f"against {BASELINE} (DE). "
            "Bold: best of its depth; underlined: second best. The average is the best of the average curve, not the "
            "average of the bests."
        ),
        head=(tuple(top), tuple(second)),
        rows=grouped(body),
        notes=(
            f"≥{THIN}reached at the first checkpoint; ≤{THIN}not reached; † the baseline is within two standard "
            "errors of chance.",
        ),
    )


def _two_best(values: pd.Series, lowest: bool) -> tuple[float, ...]:
    """The best and second-best distinct values, if there are at least two to compare."""
    distinct = sorted(set(values.dropna().round(6)), reverse=not lowest)
    return tuple(distinct[:2]) if len(values.dropna()) > 1 else ()


def _mark(value: Any, best: tuple[float, ...] | None) -> str:
    if missing(value) or not best or round(value, 6) not in best:
        return ""
    return ("best", "second")[best.index(round(value, 6))]
