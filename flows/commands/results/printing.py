"""Print paragraphs and tables of the report's page, and the answer at the end of a run, in a
terminal or a pipe."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from textwrap import wrap

from rich.text import Text

from dreamer_study.flows.commands.tables import console, empty_table, print_table, printable
from dreamer_study.reports.page.answer import read_answer
from dreamer_study.reports.tables.cells import Cell, Table
from dreamer_study.sql.results import ask

WIDTH = 100  # columns, at most
MARKS = {"strong": "bold", "best": "bold", "second": "underline"}  # of the kinds of cells


def print_answer(database: Path, study_id: str, baseline: str) -> None:
    """Print the sentences of a study's answer, the warnings beside the answer, and the table of
    mean factors."""
    means = ask(database, "outcome_means", study=study_id)
    sentences, warnings = read_answer(database, study_id)
    weak = ["\n".join(f"! {warning}" for warning in warnings)] * bool(warnings)
    for text in (
        "",
        *sentences,
        *weak,
        f"A factor is {baseline}’s tokens over the variant’s: one over the ratio.",
    ):
        print_part(text)
    if means["outdated"].any():
        print_part(
            "Results changed after mean factors were computed: `dreamer intervals` computes them"
            " again."
        )
    print_table(means.loc[~means["outdated"], :"bound"])


def print_part(part: str | Table) -> None:
    """Print a paragraph or a table."""
    _print_captioned(part) if isinstance(part, Table) else _print_text(part)


def _print_text(text: str) -> None:
    """Print lines of text, folded where they are wider than is read well, and an empty line; points
    of a list hang."""
    for line in printable(text).split("\n"):
        hanging = "  " if line[:2] in ("- ", "! ") else ""
        folded = wrap(
            line,
            _width(),
            subsequent_indent=hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )
        console.print("\n".join(folded))
    console.print()


def _print_captioned(table: Table) -> None:
    """Print a table with its caption above and its notes below."""
    _print_text(table.caption)
    shown = empty_table((head.text, head.kind != "left") for head in _heads(table))
    for row in table.rows:
        shown.add_row(*map(_words, row.cells))
    console.print(shown, width=_width())
    console.print()
    for note in table.notes:
        _print_text(note)


def _width() -> int:
    return min(console.width, WIDTH)


def _heads(table: Table) -> list[Cell]:
    """Return one head for each column; a head over several columns comes before the heads below."""
    top, *below = table.head
    inner = iter(below[0] if below else ())
    heads = []
    for cell in top:
        under = () if cell.rows > 1 or not below else islice(inner, cell.span)
        heads += [replace(one, text=f"{cell.text} {one.text}") for one in under] or [cell]
    return heads


def _words(cell: Cell) -> Text:
    """Join text and note of a cell; what the page marks has the same mark here, where the terminal
    can show one."""
    words = f"{cell.text} ({cell.note})" if cell.note else cell.text
    return Text(printable(words), style=MARKS.get(cell.kind, ""))
