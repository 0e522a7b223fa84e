"""Read the points of curves, and the scores of items behind them; check every value.

A table may be anybody's: CSV, Parquet or JSON lines. One row of points: variant, seed, tokens,
task, and score (an accuracy between 0 and 1) or loss; optional items (their number), chance and
stderr. One row of items: variant, seed, tokens, task, item, and score or loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.sql.names import AVERAGE

POINT = ["variant", "seed", "tokens", "task"]
VALUES = ("score", "loss")
OPTIONAL = ("items", "chance", "stderr")
READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": lambda path: _read_csv(path),
    # an index becomes columns
    ".parquet": lambda path: pq.read_table(path).to_pandas(ignore_metadata=True),
    ".jsonl": lambda path: pd.read_json(path, lines=True, dtype=False, precise_float=True),
}
HEADS = {".csv": 1, ".jsonl": 0}  # lines before the first row, empty ones aside
# The least and the greatest number, and what a number is.
SHARE = (0, 1, "a share between 0 and 1")
COUNT = (1, 2**53, "a number of 1 or more")
NOT_NEGATIVE = (0, float("inf"), "a number of 0 or more")
LIMITS = {
    "seed": (-(2**53), 2**53, "a whole number"),
    "tokens": COUNT,
    "items": COUNT,
    "score": SHARE,
    "chance": SHARE,
    "loss": NOT_NEGATIVE,
    "stderr": NOT_NEGATIVE,
}
ROUNDING = 1e-3  # of a score that was written with three digits
WHOLE = ("seed", "tokens", "items")
METRICS = {"score": "accuracy", "loss": "gold_bits_per_byte"}
OF_TEXT = "bits_per_byte"  # the loss on a task that has no score


@dataclass(frozen=True)
class Curves:
    """Hold curves as rows of values.

    A row has variant, seed, tokens, task, metric, value, and what else is known of the value.
    `items` has a row for each item, with `item_id`; None where the scores of items are unknown.
    `ignored` are the columns that nobody read.
    """

    points: pd.DataFrame
    items: pd.DataFrame | None = None
    ignored: Sequence[str] = ()


def read_curves(path: Path, items: Path | None = None) -> Curves:
    """Read a table of points, and one of the items behind them.

    Raises InputError, one line with the row, for whatever is wrong in a table, also where the score
    of a point is not the mean of its items.
    """
    rows = _read(path)
    columns = [*POINT, *VALUES, *OPTIONAL]
    points = _checked(path, rows, POINT, columns)
    check_curves(points, str(path), lambda row: f"{path}, {_place(path, row)}")
    scored = set(points["task"][points["score"].notna()]) if "score" in points else set()
    ignored = [name for name in rows if name not in columns]
    if items is None:
        return Curves(_values(points, scored), ignored=ignored)
    item_key = [*POINT, "item"]
    item_rows = _checked(items, _read(items), item_key, [*item_key, *VALUES])
    _compare(items, item_rows, points)
    item_values = _values(item_rows.rename(columns={"item": "item_id"}), scored)
    return Curves(_values(points, scored), item_values, ignored)


def check_curves(points: pd.DataFrame, where: str, place: Callable[[Any], str]) -> None:
    """Raise InputError where there is one variant alone, and for a curve of one point."""
    if points["variant"].nunique() < 2:
        raise InputError(
            f"{where}: one variant only, {points['variant'].iloc[0]!r}; a factor compares two"
        )
    for (variant, task), curve in points.groupby(["variant", "task"], sort=False):
        if curve["tokens"].nunique() < 2:
            raise InputError(
                f"{place(curve.index[0])}: the only point of {variant} on {task}; a curve has two"
                " or more"
            )


def _values(rows: pd.DataFrame, scored: set[str]) -> pd.DataFrame:
    """Make a row of each score and of each loss.

    Chance and standard error are the score's where there is one.
    """
    parts = []
    for name in [name for name in VALUES if name in rows]:
        part = rows[rows[name].notna()]
        others = part.drop(columns=[*VALUES], errors="ignore")
        frame = others.assign(metric=METRICS[name], filter="none", value=part[name])
        if name == "loss":
            frame.loc[~frame["task"].isin(scored), "metric"] = OF_TEXT
            of_score = part["score"].notna() if "score" in part else False
            for column in {"stderr", "chance"} & {*frame}:
                frame[column] = frame[column].mask(of_score)
        parts.append(frame)
    return pd.concat(parts)


def _compare(path: Path, items: pd.DataFrame, points: pd.DataFrame) -> None:
    """Raise InputError for items of no point, and where a point is not the mean of its items."""
    names = [name for name in VALUES if name in items and name in points]
    means = items.groupby(POINT, sort=False)[names].mean().reset_index()
    joined = means.merge(
        points, on=POINT, how="left", suffixes=("", " of the point"), indicator=True
    )
    first_rows = items.drop_duplicates(POINT).index  # of the items of each point
    for row, means_and_point in zip(first_rows, joined.to_dict("records"), strict=True):
        point = ", ".join(f"{name} {means_and_point[name]}" for name in POINT)
        if means_and_point["_merge"] == "left_only":
            raise InputError(
                f"{path}, {_place(path, row)}: items of a point that the curves do not have:"
                f" {point}"
            )
        for name in names:
            mean = means_and_point[name]
            value = means_and_point[f"{name} of the point"]
            if abs(value - mean) > ROUNDING:
                raise InputError(
                    f"{path}, {_place(path, row)}: the items have the mean {name}"
                    f" {mean:.6g}, the point has {value:.6g}: {point}"
                )


def _read(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
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


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV file as texts.

    Between semicolons, as spreadsheets write, a comma in a score or loss is a decimal point.
    """
    has_semicolons = "variant" in pd.read_csv(path, sep=";", nrows=0)
    separator = ";" if has_semicolons else ","
    rows = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, na_values=[""])
    if not has_semicolons:
        return rows
    numbers = [name for name in rows if name in LIMITS and name not in WHOLE]
    return rows.assign(**{name: rows[name].str.replace(",", ".") for name in numbers})


def _checked(
    path: Path, rows: pd.DataFrame, keys: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    """Check these columns, and return them with numbers in place of texts.

    Raises InputError.
    """
    missing = [name for name in keys if name not in rows]
    values = [name for name in VALUES if name in rows]
    if missing or not values:
        absent = missing[0] if missing else "score"
        named = repr(absent) if missing else f"{absent!r} or loss"
        raise InputError(
            f"{path}: no column {named}{nearest(absent, rows)}; it has {', '.join(rows)}"
        )
    frame = pd.DataFrame(index=rows.index)
    for name in [name for name in rows if name in columns]:
        values_given = rows[name]
        is_given = values_given.notna()
        if name not in LIMITS:
            frame[name] = values_given.astype(str).str.strip()
            _refuse(path, rows, name, ~is_given | (frame[name] == ""), "empty")
            continue
        low, high, description = LIMITS[name]
        numbers = pd.to_numeric(values_given, errors="coerce").astype(float)
        wrong = is_given & ~numbers.between(low, high)
        if name in WHOLE:
            wrong |= is_given & (numbers != numbers.round())
        if name in keys:
            wrong |= ~is_given
        _refuse(path, rows, name, wrong, f"not {description}")
        frame[name] = numbers.astype("int64") if name in keys else numbers
    _refuse(
        path,
        rows,
        "task",
        frame["task"] == AVERAGE,
        "the name of the mean over tasks, which is computed",
    )
    twice = frame.duplicated(list(keys))
    _refuse(
        path,
        rows,
        keys[-1],
        twice,
        f"there a second time, of {', '.join(keys[:-1])} as in another row",
    )
    _refuse(
        path,
        rows,
        values[0],
        frame[values].isna().all(axis=1),
        "empty, and no other value is given",
    )
    return frame


def _refuse(path: Path, rows: pd.DataFrame, column: str, wrong: pd.Series, fault: str) -> None:
    """Raise InputError for the first row that is wrong."""
    if wrong.any():
        row = wrong.idxmax()
        (value,) = rows.loc[[row], column].tolist()  # in Python's types
        raise InputError(f"{path}, {_place(path, row)}: {column} {value!r} is {fault}")


def _place(path: Path, row: int) -> str:
    """Say where a row stands: the line of a text, else the number of the row from 1."""
    if path.suffix not in HEADS:
        return f"row {row + 1}"
    with path.open("rb") as file:
        # pandas skips empty lines
        filled = (number for number, line in enumerate(file, 1) if line.strip())
        number = next(islice(filled, row + HEADS[path.suffix], None))
        return f"line {number}"
