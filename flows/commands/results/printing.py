"""Print paragraphs and tables of the report's page, and the answer at the end of a run."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

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
from dreamer_study.reports.text.answer import direction
from dreamer_study.sql.results import ask

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
    for sentence in answer.second or [direction(baseline)]:
        print_part(sentence)
    if answer.warnings:
        print_part("\n".join(f"! {warning}" for warning in answer.warnings))
    if ratios["outdated"].any():
        print_part(
            "Results changed after the ratios were computed: `dreamer intervals` computes them"
            " again."
        )
    print_table(ratios.loc[~ratios["outdated"], :"factor"])


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
