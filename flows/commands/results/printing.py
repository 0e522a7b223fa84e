"""Print paragraphs and tables of the report's page, and the answer at the end of a run."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pandas as pd
from rich.text import Text

from dreamer_study.flows.commands.tables import (
    console,
    empty_table,
    fold_at_words,
    print_table,
    printable,
)
from dreamer_study.flows.progress.folding import WIDEST, fold, width_of
from dreamer_study.reports.page.answer import read_answer
from dreamer_study.reports.tables.cells import Cell, Table
from dreamer_study.reports.text.numbers import three_digits
from dreamer_study.reports.text.ratios import Row, finding_in_short, scores
from dreamer_study.sql.results import ask

LEAST = "≥"  # before a lower bound
MOST = "≤"
DASH = "-"
LEFT = ("variant", "task", "metric", "finding", "near_chance")  # columns of texts
MARKS = {"strong": "bold", "best": "bold", "second": "underline"}  # of the kinds of cells


def print_answer(database: Path, study_id: str, baseline: str) -> None:
    """Print the sentences of a study's answer, its warnings, and the table of ratios."""
    ratios = ask(database, "outcome_ratios", study=study_id)
    answer = read_answer(database, study_id)
    print_part("")
    for sentence in answer.sentences:
        print_part(sentence)
    for block in answer.ranked:
        print_part(block.content)
    for sentence in answer.second:
        print_part(sentence)
    if answer.warnings:
        print_part("\n".join(f"! {warning}" for warning in answer.warnings))
    if ratios["outdated"].any():
        print_part(
            "Results changed after the ratios were computed: `dreamer intervals` computes them"
            " again."
        )
    table = ratio_table(ratios[~ratios["outdated"]], baseline)
    print_table(table, right=[name for name in table if name not in LEFT])


def ratio_table(ratios: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Tabulate ratios for a terminal: three digits, bounds with their signs, findings in words.

    Where the terminal is narrow the first columns are shown.
    """
    return pd.DataFrame([_cells(row, baseline) for row in ratios.to_dict("records")])


def _cells(row: Row, baseline: str) -> dict[str, object]:
    is_bound = pd.isna(row["ratio"])
    ends = [DASH if is_bound else _digits(row[name]) for name in ("low", "high")]
    to_the_best = DASH
    if row["reached"] and not row["in_advance"]:
        to_the_best = three_digits(row["at_least"])
    elif pd.notna(row["reached"]) and not row["in_advance"] and pd.notna(row["at_least"]):
        to_the_best = f"{LEAST}{three_digits(row['at_least'])}"
    return {
        "depth": row["depth"],
        "variant": row["variant"],
        "task": row["task"],
        "metric": row["metric"],
        "ratio": _ratio(row),
        "95 % low": ends[0],
        "high": ends[1],
        "finding": finding_in_short(row),
        "scores": scores(row) or DASH,
        f"to {baseline}'s best": to_the_best,
        "seeds": row["seeds"],
        "detectable": _digits(row["detectable"]),
        "factor": _digits(row["factor"]),
    }


def _ratio(row: Row) -> str:
    """Format a ratio, or the bound that stands for one."""
    if pd.notna(row["ratio"]):
        return three_digits(row["ratio"])
    if pd.notna(row["low"]):
        return f"{LEAST}{three_digits(row['low'])}"
    if pd.notna(row["high"]):
        return f"{MOST}{three_digits(row['high'])}"
    return DASH


def _digits(value: float) -> str:
    return DASH if pd.isna(value) else three_digits(value)


def print_targets(targets: pd.DataFrame, baseline: str, unit: str) -> None:
    """Print the tokens, or steps, of each model to the scores that were fixed in advance."""
    rows = [
        {
            "depth": row["depth"],
            "variant": row["variant"],
            "task": row["task"],
            "metric": row["metric"],
            "score": _digits(row["score"]),
            f"{baseline}'s {unit}": row["baseline_tokens"],
            f"its {unit}": row["variant_tokens"],
            "ratio": _ratio(row),
        }
        for row in targets.to_dict("records")
    ]
    _print_rows(f"{unit.capitalize()} to the scores fixed in advance.", rows)


def print_crossings(crossings: pd.DataFrame, baseline: str, unit: str) -> None:
    """Print the tokens, or steps, of each model to the baseline's best."""
    signs = {"at least": LEAST, "at most": MOST}
    rows = [
        {
            "depth": row["depth"],
            "variant": row["variant"],
            "task": row["task"],
            "metric": row["metric"],
            f"{baseline}'s best": _digits(row["best"]),
            f"{baseline}'s {unit}": row["baseline_tokens"],
            f"its {unit}": row["variant_tokens"],
            "ratio": signs.get(row["bound"], "") + _digits(row["ratio"]),
            "near_chance": row["near_chance"],
        }
        for row in crossings.to_dict("records")
    ]
    title = (
        f"{unit.capitalize()} to {baseline}'s best at a checkpoint, the paper's rule (its factor is"
        " 1 over the ratio)."
    )
    if "at least" in set(crossings["bound"]):
        title += " ≥: a lower bound, as the model never reached it."
    if "at most" in set(crossings["bound"]):
        title += " ≤: an upper bound, as its first checkpoint has it."
    _print_rows(title, rows)


def _print_rows(title: str, rows: list[dict[str, object]]) -> None:
    if rows:
        _print_text(title)
        table = pd.DataFrame(rows)
        print_table(table, right=[name for name in table if name not in LEFT])
        console.print()


def print_part(part: str | Table) -> None:
    """Print a paragraph or a table."""
    if isinstance(part, Table):
        _print_captioned(part)
    else:
        _print_text(part)


def _print_text(text: str) -> None:
    """Print lines of text, folded where they are too wide to be read well, and an empty line.

    Further lines of a list's point are indented.
    """
    for line in printable(text).split("\n"):
        is_point = line.startswith(("- ", "! "))
        console.print(fold(line, _width(), "  " if is_point else ""))
    console.print()


def _print_captioned(table: Table) -> None:
    """Print a table with its caption above and its notes below."""
    _print_text(table.caption)
    shown = empty_table((head.text, head.kind != "left") for head in _heads(table))
    rows = [[_words(cell) for cell in row.cells] for row in table.rows]
    for cells in rows:
        shown.add_row(*cells)
    texts = [[head.text for head in _heads(table)], *([cell.plain for cell in row] for row in rows)]
    fold_at_words(shown, list(zip(*texts, strict=True)), _width())
    console.print(shown, width=_width())
    console.print()
    for note in table.notes:
        _print_text(note)


def _width() -> int:
    return width_of(sys.stdout) or min(console.width, WIDEST)


def _heads(table: Table) -> list[Cell]:
    """Return one head for each column; a head over several columns comes before the heads below."""
    top, *below = table.head
    if not below:
        return [*top]
    second_row = iter(below[0])
    heads: list[Cell] = []
    for cell in top:
        if cell.rows > 1:  # which has nothing below
            heads.append(cell)
            continue
        inner = [
            replace(head, text=f"{cell.text} {head.text}") for head in islice(second_row, cell.span)
        ]
        heads += inner or [cell]
    return heads


def _words(cell: Cell) -> Text:
    """Join text and note of a cell, with the mark that the page gives to cells of its kind."""
    text = cell.text
    if cell.note:
        text += f" ({cell.note})"
    return Text(printable(text), style=MARKS.get(cell.kind, ""))
