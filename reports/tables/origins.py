"""Say where the number of a cell comes from: a row of a view of the results file, and columns of that row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports.data import UNKNOWN_DEPTH

STUDY = "{study}"  # stands for the study's id in the name of a macro


@dataclass(frozen=True)
class Origin:
    """Where a number of the page comes from: a row of a view of the results file, and `columns` of that row.

    The row is the one in which each name in `keys`, a column or an expression, has the given value. One key is
    `study_id`; a macro takes the study as its argument instead: `compared_scores({study})`. `note` says what a reader
    must know of the query's answer where the answer is not the number itself.
    """

    columns: str
    view: str
    keys: Mapping[str, Any]
    note: str = ""

    @property
    def study(self) -> str:
        """The id of the study that the number is of."""
        return self.keys["study_id"]

    def query(self, keys: Mapping[str, Any]) -> str:
        """Return the query that gives the number, with these values of the keys."""
        known = {name: value for name, value in keys.items() if name != "study_id" or STUDY not in self.view}
        conditions = " AND ".join(f"{name} {_equals(name, value)}" for name, value in known.items())
        view = self.view.replace(STUDY, literal(keys["study_id"]))
        return f"SELECT {self.columns} FROM {view} WHERE {conditions}"


def origin(row: Mapping[str, Any], columns: str, view: str, *keys: str) -> Origin:
    """Return the origin of a number from a row read from `view`: its study, and the values of its `keys`."""
    return Origin(columns, view, {name: row[name] for name in ("study_id", *keys)})


def _equals(name: str, value: Any) -> str:
    unknown = pd.isna(value) or (name in ("depth", "trained_depth") and value == UNKNOWN_DEPTH)
    return "IS NULL" if unknown else f"= {literal(value)}"


def literal(value: Any) -> str:
    """Write a text or a whole number in SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(int(value))
