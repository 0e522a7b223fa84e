"""Test which scores of two studies differ by more than noise.

Welch's test compares accuracies. Their noise has two parts: the spread of the seeds on both sides,
and the choice of the items, which both studies share. With one seed on either side there is no
test. Holm's correction covers all tests. Token ratios differ by more than noise if their 95 %
intervals do not overlap. Tasks with different items or documents are left out (comparability.py).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.wording import counted
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
CHECKPOINT = [*MODEL, "task", "checkpoint"]  # the checkpoint is 'best' or 'final'
SUFFIXES = tuple(f"_{side}" for side in SIDES)  # of the columns of a pair


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two studies, which `dreamer compare` prints.

    `verdict` is one sentence. `accuracies`, `ratios` and `losses` are data frames with one row for
    each model and task that both studies have. `accuracies` (0 to 1) are over the `items` that both
    studies asked, at the 'best' and the 'final' checkpoint; `difference` is the second minus the
    first, with its 95 % interval `low` to `high`, its `p` and the corrected `adjusted_p`. `ratios`
    are token ratios over the baseline with their 95 % intervals; `apart` says that the intervals do
    not overlap. `losses` are on held-out documents at the end of training, in bits per byte.
    `notes` has one line for each task or model that is left out.
    """

    verdict: str
    accuracies: pd.DataFrame
    ratios: pd.DataFrame
    losses: pd.DataFrame
    notes: list[str]


def compare(
    first: Path, second: Path, *, first_study: str | None = None, second_study: str | None = None
) -> Comparison:
    """Compare two studies in two results files, or in the same file.

    A file with one study needs no study name. Raises InputError for a missing study, for a study
    that is compared with itself, and if the two have no model, task and item in common.
    """
    first_study = study_of(first, first_study)
    second_study = study_of(second, second_study)
    if first.resolve() == second.resolve() and first_study == second_study:
        raise InputError(
            f"{first}: both sides are study {first_study!r}; name two studies or two results files"
        )
    sides = (_read(first, first_study), _read(second, second_study))
    asked = (sides[0].asked, sides[1].asked)
    left_out, notes = task_notes(*asked)
    notes += weights_notes(*asked)
    scores = [side.scores[~side.scores["task"].isin(left_out)] for side in sides]
    accuracies, accuracy_notes = _accuracies(*scores)
    notes += accuracy_notes
    if accuracies.empty:
        raise InputError(
            "nothing to compare: "
            + "; ".join(notes or ["no model has scores of the same items in both"])
        )
    notes += _ratio_notes(*(side.ratios for side in sides))
    averages_differ = average_notes(asked, left_out)
    losses, losses_differ = _losses(*(side.losses for side in sides))
    if averages_differ:
        left_out.add(AVERAGE)
    if losses_differ:
        left_out.update(losses["task"])
    ratios = _ratios(*(side.ratios for side in sides), left_out)
    return Comparison(
        verdict=_verdict(accuracies, ratios),
        accuracies=accuracies,
        ratios=ratios,
        losses=losses,
        notes=[*notes, *averages_differ, *losses_differ],
    )


def study_of(path: Path, name: str | None) -> str:
    """Return the named study, or the only study of a results file.

    Raises InputError if the file does not have the study, or has several and none is named.
    """
    with closing(connect(path, read_only=True)) as connection:
        rows = connection.execute("select distinct study_id from runs order by 1").fetchall()
    studies = [study for (study,) in rows]
    if name is None and len(studies) == 1:
        return studies[0]
    if name in studies:
        return name
    fault = f"no study {name!r}" if name else "which study?"
    has = f"it has the studies {', '.join(studies)}" if studies else "no study has runs here"
    raise InputError(f"{path}: {fault}; {has}")


@dataclass(frozen=True)
class _Side:
    """The rows of one study that are compared: its scores, ratios and losses."""

    scores: pd.DataFrame
    ratios: pd.DataFrame
    losses: pd.DataFrame
    asked: Asked


def _read(path: Path, study: str) -> _Side:
    """Read the scores, ratios and held-out losses of a study, and what the study asked."""
    with closing(connect(path, read_only=True)) as connection:
        keep_views(connection, study)

        def read(macro: str) -> pd.DataFrame:
            frame = connection.execute(f"from {macro}(?)", [study]).df()
            return frame.astype({"depth": "Int64"})  # also where all depths are null

        return _Side(
            scores=read("compared_scores"),
            ratios=read("compared_ratios"),
            losses=read("compared_losses"),
            asked=read_asked(connection, study),
        )


def _ratio_notes(first: pd.DataFrame, second: pd.DataFrame) -> list[str]:
    """Return a line for outdated ratios, and a line for ratios over different baselines."""
    notes = [
        f"left out: ratios of the {side} study: results changed after they were computed;"
        " `dreamer intervals` computes them again"
        for side, ratios in zip(SIDES, (first, second), strict=True)
        if ratios["outdated"].any()
    ]
    baselines = [sorted(set(ratios["baseline"])) for ratios in (first, second)]
    if all(baselines) and baselines[0] != baselines[1]:
        notes.append(
            f"left out: ratios, whose baselines are {baselines[0][0]} and {baselines[1][0]}"
        )
    return notes


def _ratios(first: pd.DataFrame, second: pd.DataFrame, left_out: set[str]) -> pd.DataFrame:
    """Pair the ratios that both studies have over the same baseline.

    `apart` says that the intervals do not overlap. A one-sided bound has no other end.
    """
    keys = [*MODEL, "task", "rule", "baseline"]
    pairs = first.merge(second, on=keys, suffixes=SUFFIXES)
    pairs = pairs[~pairs["task"].isin(left_out)].reset_index(drop=True)
    above = pairs["low_first"] > pairs["high_second"]  # False where either is unknown
    below = pairs["low_second"] > pairs["high_first"]
    pairs["apart"] = above | below
    return pairs


def _losses(first: pd.DataFrame, second: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Pair the held-out losses of the models of both studies.

    A line warns if the documents may differ.
    """
    pairs = first.merge(second, on=[*MODEL, "task"], suffixes=SUFFIXES)
    pairs["difference"] = pairs["loss_second"] - pairs["loss_first"]
    versions = [
        list(side["data_versions"].iloc[0]) if len(side) else [] for side in (first, second)
    ]
    if pairs.empty or (versions[0] == versions[1] and len(versions[0]) == 1):
        return pairs, []
    documents = "other documents" if all(versions) else "documents that may be others"
    note = (
        f"beware: held-out losses are of {documents} in the two studies, so they say nothing of the"
        " models, and their ratios are left out"
    )
    return pairs, [note]


def _accuracies(first: pd.DataFrame, second: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Test each model, task and checkpoint that both studies have.

    Returns the table, and a line for everything that is left out.
    """
    keys = [*CHECKPOINT, "item_id", "metric", "filter"]
    items = first.merge(second, on=keys, how="outer", suffixes=SUFFIXES, indicator="in")
    rows = []
    notes = []
    for model, items_of_model in items.groupby(MODEL, dropna=False):
        absence = _absence(items_of_model)
        if absence:
            notes.append(f"left out: {_model_name(model)}: {absence}")
            continue
        for (task, checkpoint), part in items_of_model.groupby(["task", "checkpoint"]):
            pairs = part[part["in"] == "both"]
            if len(pairs):
                key = dict(zip(CHECKPOINT, (*model, task, checkpoint), strict=True))
                rows.append(key | _tested(pairs))
            elif checkpoint == "final":
                reason = _absence(part) or "no item in common"
                notes.append(f"left out: {_model_name(model)} on {task}: {reason}")
    table = pd.DataFrame(rows)
    if rows:
        tested = table["p"].notna()
        table.loc[tested, "adjusted_p"] = holm(table["p"][tested].to_numpy())
        table["changed"] = table["adjusted_p"] < SIGNIFICANCE
    return table, notes


def _absence(items: pd.DataFrame) -> str:
    """Return which study has none of the items, or an empty text if both have some."""
    first_name, second_name = SIDES
    if (items["in"] == "left_only").all():
        return f"not in the {second_name} study"
    if (items["in"] == "right_only").all():
        return f"not in the {first_name} study"
    return ""


def _tested(pairs: pd.DataFrame) -> dict[str, float]:
    """Test the accuracies on the items that all seeds of both sides have scores of."""
    first_seeds = pairs["seed_values_first"].map(len)
    second_seeds = pairs["seed_values_second"].map(len)
    by_all = (first_seeds == first_seeds.max()) & (second_seeds == second_seeds.max())
    first = np.stack(pairs["seed_values_first"][by_all].to_list())  # [I, N]
    second = np.stack(pairs["seed_values_second"][by_all].to_list())  # [I, M]
    return {"items": int(by_all.sum()), **welch(first, second)}


def welch(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Test whether mean scores on the same items differ by more than noise (Welch's test).

    The scores are [I, N] and [I, M] for I items and N and M seeds. Returns the accuracies of both
    sides, their difference with its 95 % interval, and the p-value. With one seed on either side,
    the spread of seeds is unknown, and the interval and the p-value are NaN.

        variance = s_first^2 / N + s_second^2 / M + variance over items of the differences / I

    where s^2 is the variance between the seeds of one side. The part of the items is the variance
    of their differences, because an item that is hard for one side is hard for the other.
    """
    items = len(first)
    seeds = [first.shape[1], second.shape[1]]
    difference = second.mean() - first.mean()
    item_differences = second.mean(axis=1) - first.mean(axis=1)  # [I]
    item_variance = item_differences.var() / max(items - 1, 1)
    if min(seeds) > 1:
        seed_variances = [side.mean(axis=0).var(ddof=1) / side.shape[1] for side in (first, second)]
    else:
        seed_variances = [np.nan, np.nan]
    parts = [np.full(1, variance) for variance in seed_variances]
    errors = together(parts, seeds, item_variance)
    half = float(errors.half()[0])
    return {
        "first": first.mean(),
        "second": second.mean(),
        "difference": difference,
        "low": difference - half,
        "high": difference + half,
        "p": float(errors.p(np.full(1, difference))[0]),
    }


def _verdict(accuracies: pd.DataFrame, ratios: pd.DataFrame) -> str:
    """Return the verdict of a comparison in one line."""
    return f"{_accuracy_verdict(accuracies)}; {_ratio_verdict(ratios)}"


def _accuracy_verdict(accuracies: pd.DataFrame) -> str:
    tests = int(accuracies["p"].notna().sum())
    if not tests:
        accuracies_untested = counted(len(accuracies), "accuracy", "accuracies")
        return f"no test of {accuracies_untested}, as either side has one seed"
    changed = accuracies[accuracies["changed"]]
    if changed.empty:
        return f"no accuracy of {tests} changed beyond noise"
    largest = changed.loc[changed["difference"].abs().idxmax()]
    model = _model_name(largest[CHECKPOINT])
    where = f"{model} on {largest['task']} ({largest['checkpoint']})"
    return (
        f"{len(changed)} of {counted(tests, 'accuracy', 'accuracies')} changed beyond noise, "
        f"most {where}: {largest['first']:.3f} to {largest['second']:.3f}"
    )


def _ratio_verdict(ratios: pd.DataFrame) -> str:
    with_intervals = int((ratios[["low_first", "low_second"]].notna().all(axis=1)).sum())
    if not with_intervals:
        return "no ratio has an interval in both"
    moved = int(ratios["apart"].sum()) or "none"
    return f"of {counted(with_intervals, 'ratio')} {moved} moved beyond their intervals"


def _model_name(key: tuple | pd.Series) -> str:
    """Return the name of a model from the first two values of a key, its depth and variant."""
    depth, variant, *_ = key
    return str(variant) if pd.isna(depth) else f"{variant} of depth {depth}"
