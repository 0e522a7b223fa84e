"""Define tables as plain data for the template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dreamer_study.reports.style.theme import Style
from dreamer_study.reports.text.names import depth_name
from dreamer_study.reports.text.numbers import NOTHING


@dataclass(frozen=True)
class Cell:
    """One cell of a table: a text, with a smaller note below the text.

    `kind` is a class of the style sheet, `scope` ("row" or "col") makes the cell a header, `mark`
    is the marker of a variant before the text, `span` and `rows` count the columns and rows that
    the cell covers.
    """

    text: str
    note: str = ""
    kind: str = ""
    scope: str = ""
    span: int = 1
    rows: int = 1
    mark: Style | None = None


@dataclass(frozen=True)
class Row:
    """One row of a table; a row that is the `first` of a new group has a line above.

    `item` is the question that the row is about, by which the page's script finds its answers.
    """

    cells: tuple[Cell, ...]
    first: bool = False
    item: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the page: a caption, rows of heads, rows, and notes below.

    `name` is the anchor that links lead to.
    """

    name: str
    caption: str
    head: tuple[tuple[Cell, ...], ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def left(head: str) -> Cell:
    """Make the head of a column that is set to the left."""
    return Cell(head, kind="left", scope="col")


Cells = Sequence[Cell | str]


def table(
    name: str, caption: str, columns: Cells, rows: Iterable[tuple[Any, Cells]], *notes: str
) -> Table:
    """Make a table with one row of heads; the first cell of a row heads the row.

    Each row has the group that it belongs to and its cells. Texts become cells, aligned as the head
    of their column. Example: `table("t", "Seeds", [left("Run"), "Seed"], [(4, ["a", "0"]), (8,
    ["b", "0"])])` has a line between its two rows, because their groups differ.
    """
    head = tuple(
        column if isinstance(column, Cell) else Cell(column, scope="col") for column in columns
    )
    body: list[Row] = []
    previous_group = object()  # equal to no group
    for group, values in rows:
        cells = []
        for column, value in zip(head, values, strict=True):
            if isinstance(value, Cell):
                cells.append(value)
            else:
                is_first = not cells
                cells.append(Cell(value, kind=column.kind, scope="row" if is_first else ""))
        body.append(Row(tuple(cells), first=bool(body) and group != previous_group))
        previous_group = group
    return Table(name, caption, *_without_empty_columns(head, body), notes)


def _without_empty_columns(
    head: tuple[Cell, ...], rows: list[Row]
) -> tuple[tuple[tuple[Cell, ...], ...], tuple[Row, ...]]:
    """Return heads and rows without the columns that no row has anything in."""
    kept = [
        place
        for place in range(len(head))
        if not rows or any(_says_something(row.cells[place]) for row in rows)
    ]

    def narrow(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        return tuple(cells[place] for place in kept)

    return (narrow(head),), tuple(replace(row, cells=narrow(row.cells)) for row in rows)


def _says_something(cell: Cell) -> bool:
    return cell.text not in ("", NOTHING) or bool(cell.note)


def model_cell(variant: str, styles: Mapping[str, Style]) -> Cell:
    """Make the head of a row about a variant."""
    return Cell(variant, kind="left", scope="row", mark=styles.get(variant))


def variant_head(variant: str, styles: Mapping[str, Style]) -> Cell:
    """Make the head of a column about a variant."""
    return Cell(variant, scope="col", mark=styles.get(variant))


def model_cells(variant: str, depth: int, styles: Mapping[str, Style]) -> list[Cell]:
    """Make the first two cells of a row about a model: its variant, the head, and its depth."""
    return [model_cell(variant, styles), Cell(depth_name(depth, short=True))]
