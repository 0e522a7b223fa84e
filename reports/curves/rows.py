"""Rows as a form of curves has them, each with the file and the row that it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

HEADS = {".csv": 1, ".jsonl": 0}  # lines before the first row, empty ones aside
TEXTS = (".log", ".txt", ".out")
# Columns of a frame that no table has.
FILE = "\0file"  # its place in `files`
ROW = "\0row"  # its place in the file


@dataclass(frozen=True)
class Rows:
    """Hold rows of one or more files, or of a data frame in memory, of which there is the name.

    Of a log, a later row of a point counts, as a run that was resumed writes points again; a table
    that has a point twice is wrong. `notes` are lines to print, `ignored` columns that nobody read.
    `unit` is what `tokens` counts: tokens, or steps.
    """

    frame: pd.DataFrame
    files: Sequence[Path | str]
    is_log: bool = False
    notes: Sequence[str] = ()
    ignored: Sequence[str] = ()
    unit: str = "tokens"

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [name for name in self.frame if name not in (FILE, ROW)]

    def place(self, position: int) -> str:
        """Say where a row stands: the line of a text, else the number of the row from 1.

        A row of a data frame stands where `iloc` finds the row, from 0.
        """
        number, row = self.frame[[FILE, ROW]].iloc[position]
        file = self.files[int(number)]
        if isinstance(file, str):
            return f"{file}.iloc[{int(row)}]"
        return f"{file}, {_place(file, int(row))}"

    def having(self, frame: pd.DataFrame, *notes: str, **changes: Any) -> Rows:
        """Return these rows with another frame and further notes."""
        return replace(
            self, frame=frame.reset_index(drop=True), notes=[*self.notes, *notes], **changes
        )


@dataclass
class Found:
    """Gather rows of values as a reader of logs finds them."""

    files: Sequence[Path]
    records: list[dict[str, Any]] = field(default_factory=list)

    def add(self, file: int, row: int, values: dict[str, Any]) -> None:
        """Add a row of a file."""
        self.records.append({FILE: file, ROW: row, **values})

    def rows(self, *notes: str, **more: Any) -> Rows:
        """Return all rows, which are a log's."""
        return Rows(pd.DataFrame(self.records), self.files, is_log=True, notes=notes, **more)


def _place(path: Path, row: int) -> str:
    """Return the place of a row; pandas skips empty lines, so these do not count."""
    if path.suffix in TEXTS:
        return f"line {row + 1}"
    if path.suffix not in HEADS:
        return f"row {row + 1}"
    with path.open("rb") as file:
        filled = (number for number, line in enumerate(file, 1) if line.strip())
        number = next(islice(filled, row + HEADS[path.suffix], None))
        return f"line {number}"
