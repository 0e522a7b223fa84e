"""Check every value of curves, and put them in the form of a results file.

A row of points: variant, seed, tokens, task, and score (an accuracy between 0 and 1) or loss;
optional items (their number), chance and stderr. A row of items: variant, seed, tokens, task, item,
and score or loss.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.columns import KEYS, OPTIONAL, VALUES, seeds_by_name
from dreamer_study.reports.curves.patterns import counted, listed
from dreamer_study.reports.curves.rows import Rows
from dreamer_study.reports.data import check_lengths
from dreamer_study.sql.names import AVERAGE

POINT = [*KEYS]
# The least and the greatest number, and what a number is.
SHARE = (0, 1, "a share between 0 and 1")
COUNT = (1, 2**53, "a number of 1 or more")
NOT_NEGATIVE = (0, sys.float_info.max, "a number of 0 or more")
LIMITS = {
    "seed": (-(2**53), 2**53, "a whole number"),
    "tokens": COUNT,
    "items": COUNT,
    "score": SHARE,
    "chance": SHARE,
    "loss": NOT_NEGATIVE,
    "stderr": NOT_NEGATIVE,
}
WHOLE = {
    "seed": "a whole number",
    "tokens": "a whole number of tokens",
    "items": "a whole number of items",
}
ROUNDING = 1e-3  # of a score that was written with three digits
METRICS = {"score": "accuracy", "loss": "gold_bits_per_byte"}
OF_TEXT = "bits_per_byte"  # the loss on a task that has no score
MATCHED = 0.05  # checkpoints of two runs so near are one point of the curve


@dataclass(frozen=True)
class Curves:
    """Hold curves as rows of values.

    A row has variant, seed, tokens, task, metric, value, and what else is known of the value.
    `items` has a row for each item, with `item_id`; None where the scores of items are unknown.
    `ignored` are the columns that nobody read, `notes` are lines to print, `unit` is what `tokens`
    counts (tokens, or steps), and `kinds` says of metrics that are not listed in a results file
    whether they are an accuracy or a loss.
    """

    points: pd.DataFrame
    items: pd.DataFrame | None = None
    ignored: Sequence[str] = ()
    notes: Sequence[str] = ()
    unit: str = "tokens"
    kinds: Mapping[str, str] = field(default_factory=dict)


def curves_of(rows: Rows, items: Rows | None = None) -> Curves:
    """Check rows with the product's columns, and return their curves.

    Raises InputError, one line with the row, for whatever is wrong, also where the score of a point
    is not the mean of its items.
    """
    columns = [*POINT, *VALUES, *OPTIONAL]
    rows = one_of_each(without_step_0(seeds_by_name(rows)))
    check_lengths(rows.frame, POINT, str(rows.files[0]))
    points = _checked(rows, POINT, columns)
    check_curves(points, str(rows.files[0]), rows.place)
    scored = set(points["task"][points["score"].notna()]) if "score" in points else set()
    found = _values(points, scored)
    notes = [*rows.notes, *missing_points(found)]
    more = {"ignored": rows.ignored, "notes": notes, "unit": rows.unit}
    if items is None:
        return Curves(found, **more)
    item_key = [*POINT, "item"]
    items = without_step_0(seeds_by_name(items))
    item_rows = _checked(items, item_key, [*item_key, *VALUES])
    _compare(items, item_rows, points)
    item_values = _values(item_rows.rename(columns={"item": "item_id"}), scored)
    return Curves(found, item_values, **more)


def without_step_0(rows: Rows) -> Rows:
    """Leave out the points before training, which have no place on a logarithmic axis."""
    is_0 = pd.to_numeric(rows.frame["tokens"], errors="coerce") == 0
    if not is_0.any():
        return rows
    noun = counted(int(is_0.sum()), "value")
    note = f"{noun} before training (step 0) left out: they have no place on a logarithmic axis"
    return rows.having(rows.frame[~is_0], note)


def one_of_each(rows: Rows) -> Rows:
    """Keep the later of the rows that a log has of one point, and say which differ."""
    if not rows.is_log:
        return rows
    frame = rows.frame
    values = [name for name in VALUES if name in frame]
    is_earlier = frame.duplicated(POINT, keep="last")
    if not is_earlier.any():
        return rows
    doubled = frame[frame.duplicated(POINT, keep=False)]
    differing = doubled.groupby(POINT, sort=False)[values].nunique()
    twice = differing[(differing > 1).any(axis=1)].index
    notes = []
    if len(twice):
        shown = [
            f"{task} of {variant} seed {seed} at {tokens:,.0f}"
            for variant, seed, tokens, task in twice
        ]
        notes = [
            f"{counted(len(twice), 'point')} stood twice with other values, and the later counts:"
            f" {listed(shown, 3)}"
        ]
    return rows.having(frame[~is_earlier], *notes)


def missing_points(points: pd.DataFrame) -> list[str]:
    """Name the tasks that a variant, a seed or the last checkpoint of a run lacks.

    Averages are over the checkpoints that have all tasks, so that a missing one moves them.
    """
    notes = []
    for _, rows in points.groupby("metric", sort=False):
        tasks = rows["task"].drop_duplicates()
        for variant, own in rows.groupby("variant", sort=False):
            present = set(own["task"])
            absent = [task for task in tasks if task not in present]
            notes += [f"! {task} is missing for {variant}" for task in absent]
            if not _has_every_point(own):
                notes += _missing_for_seeds(str(variant), own)
    return list(dict.fromkeys(notes))


def _has_every_point(own: pd.DataFrame) -> bool:
    """Tell whether a variant has each of its tasks at each checkpoint of each of its seeds."""
    checkpoints = own[["seed", "tokens"]].drop_duplicates()
    points = own[["seed", "tokens", "task"]].drop_duplicates()
    return len(points) == len(checkpoints) * own["task"].nunique()


def _missing_for_seeds(variant: str, own: pd.DataFrame) -> list[str]:
    notes = []
    by_seed = own.groupby("seed")["tokens"]
    seeds = list(by_seed.groups)
    last_of_runs = by_seed.max()
    checkpoints = {seed: np.unique(tokens) for seed, tokens in by_seed}
    every = {seed: frozenset(counts) for seed, counts in checkpoints.items()}
    for task, of_task in own.groupby("task", sort=False):
        # nearly all tasks have every checkpoint of every run, and nothing to be said
        if of_task.groupby("seed")["tokens"].agg(frozenset).to_dict() == every:
            continue
        last = of_task.groupby("seed")["tokens"].max()
        without = [str(seed) for seed in seeds if seed not in last.index]
        if without:
            notes.append(f"! {task} is missing for {variant}, seed {', '.join(without)}")
        ends = last_of_runs.reindex(last.index)
        early = last[last < (1 - MATCHED) * ends]
        for tokens in sorted(ends[early.index].unique()):
            of_seeds = [str(seed) for seed in early.index if ends[seed] == tokens]
            notes.append(
                f"! {task} is missing for {variant} at its last checkpoint, {tokens:,}"
                f" (seed {', '.join(of_seeds)}): averages end at {early.min():,}"
            )
        holes = _holes(checkpoints, of_task)
        if holes:
            notes.append(
                f"! {task} is missing for {variant} at {listed([f'{n:,}' for n in holes], 3)},"
                " where other tasks are not: averages leave these checkpoints out"
            )
    return notes


def _holes(checkpoints: Mapping[int, np.ndarray], of_task: pd.DataFrame) -> list[int]:
    """Find checkpoints before a task's last one at which a run has other tasks, but not this one.

    Runs may evaluate their tasks a few steps apart.
    """
    holes: set[int] = set()
    for seed, points in of_task.groupby("seed"):
        known = np.sort(points["tokens"].to_numpy())
        others = checkpoints[seed]
        theirs = np.setdiff1d(others[others < known[-1]], known)
        after = known[np.searchsorted(known, theirs)]
        before = known[np.maximum(np.searchsorted(known, theirs) - 1, 0)]
        distance = np.minimum(np.abs(after / theirs - 1), np.abs(before / theirs - 1))
        holes.update(map(int, theirs[distance > MATCHED]))
    return sorted(holes)


def check_curves(points: pd.DataFrame, where: str, place: Callable[[int], str]) -> None:
    """Raise InputError where there is one variant alone, and for a curve of one point."""
    if points["variant"].nunique() < 2:
        raise InputError(
            f"{where}: one variant only, {points['variant'].iloc[0]!r}; a ratio compares two"
        )
    positions = points.assign(position=range(len(points)))
    for (variant, task), curve in positions.groupby(["variant", "task"], sort=False):
        if curve["tokens"].nunique() < 2:
            raise InputError(
                f"{place(int(curve['position'].iloc[0]))}: the only point of {variant} on {task}; a"
                " curve has two or more"
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


def _compare(rows: Rows, items: pd.DataFrame, points: pd.DataFrame) -> None:
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
                f"{rows.place(row)}: items of a point that the curves do not have: {point}"
            )
        for name in names:
            mean = means_and_point[name]
            value = means_and_point[f"{name} of the point"]
            if abs(value - mean) > ROUNDING:
                raise InputError(
                    f"{rows.place(row)}: the items have the mean {name} {mean:.6g}, the point has"
                    f" {value:.6g}: {point}"
                )


def _checked(rows: Rows, keys: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Check these columns, and return them with numbers in place of texts.

    Raises InputError.
    """
    given = rows.frame
    if given.empty:
        raise InputError(f"{rows.files[0]}: no point is left")
    frame = pd.DataFrame(index=given.index)
    for name in [name for name in given if name in columns]:
        is_given = given[name].notna()
        if name not in LIMITS:
            frame[name] = given[name].astype(str).str.strip()
            _refuse(rows, name, ~is_given | (frame[name] == ""), "empty")
            continue
        low, high, description = LIMITS[name]
        numbers = pd.to_numeric(given[name], errors="coerce").astype(float)
        wrong = is_given & ~numbers.between(low, high)
        if name in keys:
            wrong |= ~is_given
        if wrong.any():
            hint = _hint(name, numbers[wrong], given[name][wrong].iloc[0])
            _refuse(rows, name, wrong, f"not {description}{hint}")
        if name in WHOLE:
            _refuse(rows, name, is_given & (numbers != numbers.round()), f"not {WHOLE[name]}")
        frame[name] = numbers.astype("int64") if name in keys else numbers
    is_average = frame["task"] == AVERAGE
    _refuse(rows, "task", is_average, "the name of the mean over tasks, which is computed")
    others = ", ".join(keys[:-1])
    twice = frame.duplicated(list(keys))
    fault = f"there a second time, of {others} as in another row"
    _refuse(rows, keys[-1], twice, fault + _unread(rows))
    values = [name for name in VALUES if name in frame]
    is_empty = frame[values].isna().all(axis=1)
    _refuse(rows, values[0], is_empty, "empty, and no other value is given")
    return frame


def _unread(rows: Rows) -> str:
    """Say what to do where a column that nobody read may distinguish equal rows."""
    if not rows.ignored:
        return ""
    first = rows.ignored[0]
    return (
        f"; not read: {listed(rows.ignored)}. Where such a column distinguishes the rows, give"
        f" those of one value, or read it as in --column task={first}"
    )


def _hint(name: str, wrong: pd.Series, written: object) -> str:
    """Say what the first wrong number may be, and what was `written` for it."""
    if name == "score" and len(wrong) and 1 < wrong.iloc[0] <= 100:
        return "; where scores are percent, --column score='score/100'"
    if name == "score" and str(written).strip().endswith("%"):
        return """; --column score="replace(score, '%', '')::double / 100" reads percent signs"""
    if name == "loss" and len(wrong) and wrong.iloc[0] == float("inf"):
        return "; leave out the points of a run that diverged"
    return ""


def _refuse(rows: Rows, column: str, wrong: pd.Series, fault: str) -> None:
    """Raise InputError for the first row that is wrong."""
    if wrong.any():
        position = int(wrong.to_numpy().argmax())
        value = rows.frame[column].iloc[[position]].tolist()[0]  # in Python's types
        raise InputError(f"{rows.place(position)}: {column} {value!r} is {fault}")
