"""Read curves of any form: a table, a folder of tables, logs, results, or what a tool leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.columns import KEYS
from dreamer_study.reports.curves.forms.events import NAME as EVENTS
from dreamer_study.reports.curves.forms.events import rows_of_events
from dreamer_study.reports.curves.forms.logs import rows_of_logs
from dreamer_study.reports.curves.forms.results import curves_of_results
from dreamer_study.reports.curves.forms.tables import (
    READERS,
    rows_of_folder,
    rows_of_frame,
    rows_of_table,
)
from dreamer_study.reports.curves.forms.trainer_state import NAME as TRAINER_STATE
from dreamer_study.reports.curves.forms.trainer_state import rows_of_trainer_states
from dreamer_study.reports.curves.patterns import counted
from dreamer_study.reports.curves.points import Curves, curves_of
from dreamer_study.reports.curves.rows import Rows

# what messages call the data frames of a Python program
FRAME = "curves"
ITEMS_FRAME = "items"
SAMPLES = "samples_"  # of lm-eval, which are items
# The forms of a folder, the first that has a file.
FORMS: dict[str, Callable[[Path], bool]] = {
    "results": lambda file: file.suffix == ".json" and file.name.startswith("results"),
    TRAINER_STATE: lambda file: file.name == TRAINER_STATE,
    "tables": lambda file: file.suffix in READERS and not file.name.startswith(SAMPLES),
    "event files": lambda file: EVENTS in file.name,
    "records": lambda file: file.suffix == ".json",
}


def read(path: Path, asked: Asked = Asked()) -> Curves:  # noqa: B008, it is frozen
    """Read curves. Raises InputError, one line, for whatever is wrong in them."""
    if not path.exists():
        raise InputError(f"{path}: no such {'file' if path.suffix else 'folder'}")
    if asked.logs:
        _refuse(asked, path, items=True, metric=True, columns=True)
        return curves_of(rows_of_logs(path, asked))
    if not path.is_dir():
        return curves_of(rows_of_table(path, asked), _items(asked))
    form, files = _form_of(path)
    if form in ("results", "records"):
        _refuse(asked, path, items=True, columns=True)
        curves = curves_of_results(path, _results(path), asked)
    else:
        _refuse(asked, path, items=True)
        rows_of = {
            TRAINER_STATE: rows_of_trainer_states,
            "tables": rows_of_folder,
            "event files": rows_of_events,
        }[form]
        curves = curves_of(rows_of(path, files, asked))
    return curves


def read_frame(frame: pd.DataFrame, asked: Asked = Asked()) -> Curves:  # noqa: B008, it is frozen
    """Read curves of a data frame. Raises InputError, one line, for whatever is wrong in them."""
    if asked.logs:
        raise InputError(f"{FRAME}: --log is of a folder of logs; leave it out")
    return curves_of(rows_of_frame(frame, FRAME, asked), _items(asked))


def _items(asked: Asked) -> Rows | None:
    """Read the items behind the points of a single table."""
    keys = [*KEYS, "item"]
    if asked.items is None:
        return None
    if isinstance(asked.items, pd.DataFrame):
        return rows_of_frame(asked.items, ITEMS_FRAME, Asked(), keys)
    return rows_of_table(asked.items, Asked(), keys)


def read_curves(path: Path, items: Path | None = None) -> Curves:
    """Read a table with usual names, and one of the items behind its points."""
    return read(path, Asked(items=items))


def _form_of(folder: Path) -> tuple[str, list[Path]]:
    """Return the form of a folder, and its files of that form."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    for form, is_of in FORMS.items():
        own = [file for file in files if is_of(file)]
        if own:
            return form, own
    raise InputError(
        f"{folder}: none of its {counted(len(files), 'file')} is a table"
        f" ({', '.join(READERS)}), a result file (.json) or an event file; plain logs need --log"
    )


def _results(folder: Path) -> list[Path]:
    """Return the files of a folder that may be results."""
    found = [file for file in folder.rglob("*.json") if file.is_file()]
    return [file for file in found if file.name != TRAINER_STATE]


def _refuse(
    asked: Asked, path: Path, *, items: bool = False, metric: bool = False, columns: bool = False
) -> None:
    """Raise InputError for an option that is of another form."""
    if items and asked.items is not None:
        raise InputError(f"{path}: --items is of a single table; leave it out")
    if metric and asked.metric is not None:
        raise InputError(f"{path}: --metric is of results and tables; leave it out")
    if columns and asked.columns:
        raise InputError(f"{path}: --column is of tables; leave it out")
