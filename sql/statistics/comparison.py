"""Test what changed between two studies beyond noise: accuracies by Welch's test, factors by their
intervals.

The noise of an accuracy is what seeds differ by, on both sides, and the choice of the items, which
are the same in both studies; with one seed on either side there is no test. Holm's correction is
over all tests. Factors differ beyond noise where their 95 % intervals do not overlap. Tasks with
other items or documents are left out (comparability.py).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.connection import connect
from dreamer_study.sql.materialised import keep_views
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.statistics.comparability import (
    SIDES,
    Asked,
    average_notes,
    read_asked,
    task_notes,
    weights_notes,
)
from dreamer_study.sql.statistics.errors import SIGNIFICANCE, holm, together

MODEL = ["depth", "variant"]
PLACE = [*MODEL, "task", "checkpoint"]


@dataclass(frozen=True)
class Comparison:
    """Hold what `dreamer compare` prints: a verdict, tables, and a line for each task or model that
    is left out.

    `accuracies` are on the `items` that both studies asked. `losses` are those on held-out
    documents at the end of training, of models in both studies.
    """

    verdict: str
    accuracies: pd.DataFrame
    factors: pd.DataFrame
    losses: pd.DataFrame
    notes: list[str]


def compare(
    first: Path, second: Path, *, first_study: str | None = None, second_study: str | None = None
) -> Comparison:
    """Compare two studies, of two results files or of one; a file with one study needs no study
    name.

    Raises InputError for a missing study, for a study compared with itself, and where the two have
    no model, task and item in common.
    """
    names = [study_of(path, name) for path, name in ((first, first_study), (second, second_study))]
    if first.resolve() == second.resolve() and names[0] == names[1]:
        raise InputError(
            f"{first}: both sides are study {names[0]!r}; name two studies, or two results files"
        )
    read = [_read(path, name) for path, name in zip((first, second), names, strict=True)]
    scores, factors, held_out, asked = zip(*read, strict=True)
    left_out, notes = task_notes(*asked)
    notes += weights_notes(*asked)
    accuracies, missing = _accuracies(*(frame[~frame["task"].isin(left_out)] for frame in scores))
    notes += missing
    if accuracies.empty:
        raise InputError(
            "nothing to compare: "
            + "; ".join(notes or ["no model has scores of the same items in both"])
        )
    notes += [
        f"left out: mean factors of the {side} study: results changed after they were computed;"
        " `dreamer intervals` computes them again"
        for side, frame in zip(SIDES, factors, strict=True)
        if frame["outdated"].any()
    ]
    average = average_notes(asked, left_out)
    baselines = [sorted(set(frame["baseline"])) for frame in factors]
    if all(baselines) and baselines[0] != baselines[1]:
        notes.append(
            f"left out: factors, whose baselines are {baselines[0][0]} and {baselines[1][0]}"
        )
    pairs = factors[0].merge(
        factors[1], on=[*MODEL, "task", "rule", "baseline"], suffixes=("_first", "_second")
    )
    losses, unequal = _losses(*held_out)
    left_out |= {AVERAGE} if average else set()
    left_out |= {*losses["task"]} if unequal else set()
    pairs = pairs[~pairs["task"].isin(left_out)].reset_index(drop=True)
    above = (pairs["low_first"] > pairs["high_second"]) & (pairs["bound_first"] != "at most")
    below = (pairs["low_second"] > pairs["high_first"]) & (pairs["bound_second"] != "at most")
    pairs["apart"] = above | below
    return Comparison(
        _verdict(accuracies, pairs), accuracies, pairs, losses, notes + average + unequal
    )


def study_of(path: Path, name: str | None) -> str:
    """Return the study of a results file that holds one, or the named study. Raises InputError for
    any other."""
    with closing(connect(path, read_only=True)) as connection:
        known = [
            row[0]
            for row in connection.execute(
                "select distinct study_id from runs order by 1"
            ).fetchall()
        ]
    if name is None and len(known) == 1:
        return known[0]
    if name not in known:
        has = f"it has the studies {', '.join(known)}" if known else "no study has runs here"
        raise InputError(f"{path}: {f'no study {name!r}' if name else 'which study?'}; {has}")
    return name


def _read(path: Path, study: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, Asked]:
    """Read the scores, factors and held-out losses of a study, and what the study asked."""
    with closing(connect(path, read_only=True)) as connection:
        keep_views(connection, study)
        wanted = (f"from compared_{what}(?)" for what in ("scores", "factors", "losses"))
        scores, factors, losses = (
            connection.execute(one, [study]).df().astype({"depth": "Int64"}) for one in wanted
        )
        return scores, factors, losses, read_asked(connection, study)


def _losses(first: pd.DataFrame, second: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Pair the held-out losses of the models of both studies; a line says where the documents may
    differ."""
    pairs = first.merge(second, on=[*MODEL, "task"], suffixes=("_first", "_second"))
    pairs["difference"] = pairs["loss_second"] - pairs["loss_first"]
    versions = [
        list(frame["data_versions"].iloc[0]) if len(frame) else [] for frame in (first, second)
    ]
    if pairs.empty or (versions[0] == versions[1] and len(versions[0]) == 1):
        return pairs, []
    known = "other documents" if all(versions) else "documents that may be others"
    said = (
        f"beware: held-out losses are of {known} in the two studies, so they say nothing of the"
        " models"
    )
    return pairs, [f"{said}, and their factors are left out"]


def _accuracies(first: pd.DataFrame, second: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Test each model, task and checkpoint that both studies have; return the table, and what is
    left out."""
    keys = [*PLACE, "item_id", "metric", "filter"]
    items = first.merge(
        second, on=keys, how="outer", suffixes=("_first", "_second"), indicator="in"
    )
    rows, notes = [], []
    for model, of_model in items.groupby(MODEL, dropna=False):
        if alone := _of_one_study(of_model):
            notes.append(f"left out: {_model(model)}: {alone}")
            continue
        for (task, checkpoint), part in of_model.groupby(["task", "checkpoint"]):
            pairs = part[part["in"] == "both"]
            if len(pairs):
                rows.append(
                    dict(zip(PLACE, (*model, task, checkpoint), strict=True)) | _tested(pairs)
                )
            elif checkpoint == "final":
                notes.append(
                    f"left out: {_model(model)} on {task}:"
                    f" {_of_one_study(part) or 'no item in common'}"
                )
    table = pd.DataFrame(rows)
    if rows:
        tested = table["p"].notna()
        table.loc[tested, "adjusted_p"] = holm(table["p"][tested].to_numpy())
        table["changed"] = table["adjusted_p"] < SIGNIFICANCE
    return table, notes


def _of_one_study(items: pd.DataFrame) -> str:
    """Say in which study items are not, where all are of the other; empty where they are not."""
    missing = {"left_only": SIDES[1], "right_only": SIDES[0]}
    return next(
        (f"not in the {side} study" for of, side in missing.items() if (items["in"] == of).all()),
        "",
    )


def _tested(pairs: pd.DataFrame) -> dict[str, float]:
    """Test the accuracies on the common items that all seeds of a side have a score of."""
    names = ["seed_values_first", "seed_values_second"]
    whole = np.logical_and.reduce(
        [pairs[name].map(len) == pairs[name].map(len).max() for name in names]
    )
    return {"items": int(whole.sum())} | welch(
        *(np.stack(pairs[name][whole].to_list()) for name in names)
    )


def welch(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Test whether mean scores of the same items [I, N] and [I, M], of N and M seeds, differ by
    more than noise.

    Returns the accuracies of both sides, their difference with its 95 % interval, and the p-value,
    all of the noise NaN with one seed on either side: nothing says then what other seeds would
    give. The items' part is that of their differences, since items that are hard for one side are
    hard for the other.
    """
    sides, seeds = (first, second), [first.shape[1], second.shape[1]]
    difference = second.mean() - first.mean()
    of_items = (second.mean(axis=1) - first.mean(axis=1)).var() / max(len(first) - 1, 1)
    parts = [
        np.full(1, side.mean(axis=0).var(ddof=1) / side.shape[1] if min(seeds) > 1 else np.nan)
        for side in sides
    ]
    errors = together(parts, seeds, of_items)
    half = float(errors.half()[0])
    return {
        "first": first.mean(),
        "second": second.mean(),
        "difference": difference,
        "low": difference - half,
        "high": difference + half,
        "p": float(errors.p(np.full(1, difference))[0]),
    }


def _verdict(accuracies: pd.DataFrame, factors: pd.DataFrame) -> str:
    changed, tests = accuracies[accuracies["changed"]], int(accuracies["p"].notna().sum())
    verdict = f"no accuracy of {tests} changed beyond noise"
    if not tests:
        verdict = f"no test of {len(accuracies)} accuracies, as either side has one seed"
    if len(changed):
        largest = changed.loc[changed["difference"].abs().idxmax()]
        place = f"{_model(largest[PLACE])} on {largest['task']} ({largest['checkpoint']})"
        verdict = (
            f"{len(changed)} of {tests} accuracies changed beyond noise, "
            f"most {place}: {largest['first']:.3f} to {largest['second']:.3f}"
        )
    known = int((factors[["low_first", "low_second"]].notna().all(axis=1)).sum())
    moved = (
        f"of {known} factors {int(factors['apart'].sum()) or 'none'} moved beyond their intervals"
    )
    return f"{verdict}; {moved if known else 'no factor has an interval in both'}"


def _model(place: tuple | pd.Series) -> str:
    depth, variant, *_ = place
    return str(variant) if pd.isna(depth) else f"{variant} of depth {depth}"
