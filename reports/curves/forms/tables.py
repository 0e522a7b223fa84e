"""Read tables: CSV, Parquet or JSON lines, each of any columns, one file or a folder of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.columns import KEYS, has_key, name_columns
from dreamer_study.reports.curves.forms.wandb import is_wide, long_rows
from dreamer_study.reports.curves.patterns import fields_of_files, lacking
from dreamer_study.reports.curves.rows import FILE, ROW, Rows

READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": lambda path: _read_csv(path),
    # an index becomes columns
    ".parquet": lambda path: pq.read_table(path).to_pandas(ignore_metadata=True),
    ".jsonl": lambda path: pd.read_json(path, lines=True, dtype=False, precise_float=True),
}
# Whole numbers, in which a comma is no decimal point.
WHOLE = ("seed", "tokens", "items", "step")
LIGHTNING = "metrics.csv"  # what Lightning's CSVLogger writes


def read_table(path: Path) -> pd.DataFrame:
    """Read a file. Raises InputError where it is absent, damaged, empty or of another kind."""
    if not path.is_file():
        raise InputError(f"{path}: no such file or folder")
    if path.suffix not in READERS:
        raise InputError(f"{path}: a table ends in {', '.join(READERS)}")
    try:
        rows = READERS[path.suffix](path)
    # whatever pandas, pyarrow and the codecs may raise for a damaged file
    except Exception as error:
        raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    if rows.empty:
        raise InputError(f"{path}: holds no rows")
    return rows.rename(columns=str)


def rows_of_table(path: Path, asked: Asked, keys: Iterable[str] = KEYS) -> Rows:
    """Read a single table; `--pattern` is of its names of runs."""
    frame = read_table(path)
    rows = Rows(frame.assign(**{FILE: 0, ROW: range(len(frame))}), [path])
    return _named(rows, asked, keys)


def _named(rows: Rows, asked: Asked, keys: Iterable[str]) -> Rows:
    """Name the columns of a single table."""
    if is_wide(rows.frame.columns):
        rows = long_rows(rows)
    return name_columns(rows, asked, [*keys], run_pattern=asked.pattern)


def rows_of_frame(frame: pd.DataFrame, name: str, asked: Asked, keys: Iterable[str] = KEYS) -> Rows:
    """Read a data frame as a table; an index with names is columns. Messages call the frame `name`.

    Raises InputError where the frame is empty or has a column twice.
    """
    if any(frame.index.names):
        frame = frame.reset_index()
    if frame.empty:
        raise InputError(f"{name}: holds no rows")
    frame = frame.rename(columns=str)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InputError(f"{name}: two columns have the name {twice[0]!r}")
    frame = frame.assign(**{FILE: 0, ROW: range(len(frame))}).reset_index(drop=True)
    return _named(Rows(frame, [name]), asked, keys)


def rows_of_folder(folder: Path, files: Iterable[Path], asked: Asked) -> Rows:
    """Read tables of a folder, whose paths may have variant, seed, tokens, step and task."""
    fitting, notes = fields_of_files(folder, sorted(files), asked.pattern)
    parts: list[Rows] = []
    for number, (path, fields) in enumerate(fitting):
        frame = read_table(path).assign(**{FILE: 0})
        frame = frame.assign(**{ROW: range(len(frame))}, **fields)
        rows = Rows(frame, [path], is_log=True)
        if path.name == LIGHTNING and {"epoch", "step"} <= {*frame}:
            rows = _of_lightning(rows)
        if is_wide(frame.columns):
            rows = long_rows(rows)
        if not has_key(rows, "variant", asked):
            raise lacking(folder, asked.pattern, ["variant"])
        named = name_columns(rows, asked, KEYS, run_pattern=None)
        parts.append(named.having(named.frame.assign(**{FILE: number})))
    return joined(parts, notes)


def joined(parts: list[Rows], notes: Iterable[str]) -> Rows:
    """Put the rows of several files together; a line that several say is said once."""
    units = {part.unit for part in parts}
    if len(units) > 1:
        raise InputError(f"{parts[0].files[0]}: some files have tokens, others only steps")
    ignored = dict.fromkeys(name for part in parts for name in part.ignored)
    used = {name for part in parts for name in part.names}
    return Rows(
        pd.concat([part.frame for part in parts], ignore_index=True),
        [part.files[0] for part in parts],
        is_log=True,
        notes=[*notes, *dict.fromkeys(note for part in parts for note in part.notes)],
        ignored=[name for name in ignored if name not in used],
        unit=parts[0].unit,
    )


def _of_lightning(rows: Rows) -> Rows:
    """Count steps from 1: the first row of Lightning's has step 0, after one step of training."""
    steps = pd.to_numeric(rows.frame["step"], errors="coerce") + 1
    return rows.having(rows.frame.assign(step=steps))


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV file as texts.

    Between semicolons, as spreadsheets write, a comma in a score or loss is a decimal point.
    """
    options: dict[str, Any] = {"dtype": str, "keep_default_na": False, "na_values": [""]}
    by_comma = pd.read_csv(path, sep=",", nrows=0, dtype=str).columns
    by_semicolon = pd.read_csv(path, sep=";", nrows=0, dtype=str).columns
    if len(by_semicolon) <= len(by_comma):
        return pd.read_csv(path, sep=",", **options)
    rows = pd.read_csv(path, sep=";", **options)
    decimal = r"-?\d*,\d+(?:[eE][-+]?\d+)?"
    numbers = [
        name
        for name in rows
        if name not in WHOLE
        and rows[name].dropna().str.fullmatch(rf"{decimal}|-?\d+(?:\.\d+)?").all()
    ]
    return rows.assign(**{name: rows[name].str.replace(",", ".") for name in numbers})
