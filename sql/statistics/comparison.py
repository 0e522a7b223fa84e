"""Did anything change beyond noise between two studies? Paired tests of accuracies, intervals of factors.

Both studies evaluate the same benchmark items, so accuracies are compared item by item: what both get right or wrong
says nothing, and the rest is far less noisy than two separate accuracies. What only one of them asked is left out, and
tasks that are not the same altogether (comparable.py says which, and why). The test is McNemar's, exact; where an
item's score is a mean over seeds, its generalisation, random signs of the items' differences. Intervals of the
difference are a paired bootstrap over items. Many tests are made at once, so a change counts as one only after Holm's
correction over all of them, which keeps the chance of any false alarm at 5 %.

The 'best' checkpoint is chosen by the same items, in both studies alike; 'final' is free of choice. Both show noise of
items only: two trainings of one model with other seeds differ by more than that.

Factors are compared by their 95 % intervals: apart is beyond noise, and that is strict (two intervals can overlap
though the difference would be significant). Their intervals have noise of training in them where it is seen between
checkpoints (bootstrap.py). Each study's factor is from all of its own items.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from pipeline.errors import InputError
from sql.results import connect
from sql.statistics.comparable import AVERAGE, Asked, average_notes, read_asked, task_notes
from sql.statistics.draws import resample

MODEL = ["depth", "variant"]
PLACE = [*MODEL, "task", "checkpoint"]
SIGNIFICANCE = 0.05
DRAWS = 2000
SIGNS = 10_000


@dataclass(frozen=True)
class Comparison:
    """What `compare` found: the verdict in one line, both tables, and what is compared in part or not, a line each."""

    verdict: str
    accuracies: pd.DataFrame
    factors: pd.DataFrame
    notes: list[str]


def compare(
    first: Path, second: Path, *, first_study: str | None = None, second_study: str | None = None, seed: int = 0
) -> Comparison:
    """Compare a study of one results file with a study of another, or of the same; the names may be left out of a file
    with one study.

    Raises InputError for a missing study, for a study compared with itself, and where the two have no model, task and
    item in common.
    """
    names = [_study(path, name) for path, name in ((first, first_study), (second, second_study))]
    if first.resolve() == second.resolve() and names[0] == names[1]:
        raise InputError(f"{first}: both sides are study {names[0]!r}; name two studies, or two results files")
    read = [_read(path, name) for path, name in zip((first, second), names, strict=True)]
    scores, factors, asked = zip(*read, strict=True)
    left_out, notes = task_notes(*asked)
    accuracies, missing = _accuracies(*(frame[~frame["task"].isin(left_out)] for frame in scores), seed=seed)
    notes += missing
    if accuracies.empty:
        raise InputError("nothing to compare: " + "; ".join(notes or ["no model has scores of the same items in both"]))
    comparable, said = average_notes(*asked, left_out, factors)
    pairs = factors[0].merge(factors[1], on=[*MODEL, "task", "rule"], suffixes=("_first", "_second"))
    pairs = pairs[~pairs["task"].isin(left_out | ({AVERAGE} if not comparable else set()))].reset_index(drop=True)
    pairs["apart"] = (pairs["low_first"] > pairs["high_second"]) | (pairs["low_second"] > pairs["high_first"])
    return Comparison(_verdict(accuracies, pairs), accuracies, pairs, notes + said)


def _study(path: Path, name: str | None) -> str:
    with closing(connect(path, read_only=True)) as connection:
        known = [row[0] for row in connection.execute("select distinct study_id from runs order by 1").fetchall()]
    if name is None and len(known) == 1:
        return known[0]
    if name not in known:
        asked = "no study has runs here" if not known else f"it has the studies {', '.join(known)}"
        raise InputError(f"{path}: {f'no study {name!r}' if name else 'which study?'}; {asked}")
    return name


def _read(path: Path, study: str) -> tuple[pd.DataFrame, pd.DataFrame, Asked]:
    """Scores, factors, and what was asked of a study."""
    with closing(connect(path, read_only=True)) as connection:
        wanted = ("from compared_scores(?)", "from compared_factors(?)")
        scores, factors = (connection.execute(one, [study]).df().astype({"depth": "Int64"}) for one in wanted)
        return scores, factors, read_asked(connection, study)


def _accuracies(first: pd.DataFrame, second: pd.DataFrame, *, seed: int) -> tuple[pd.DataFrame, list[str]]:
    """A row for each model, task and checkpoint that both have, and what is left out."""
    notes, scores = [], (first, second)
    models = [dict.fromkeys(frame[MODEL].itertuples(index=False, name=None)) for frame in scores]
    for name, here, there in (("second", *models), ("first", *reversed(models))):
        notes += [f"left out: {_model(model)}: not in the {name} study" for model in here if model not in there]
    common = [model for model in models[0] if model in models[1]]
    groups = [dict(list(frame.groupby(PLACE, dropna=False))) for frame in scores]
    rows = []
    for place in groups[0] | groups[1]:
        if place[:2] not in common:
            continue
        missing = [name for name, known in zip(("first", "second"), groups, strict=True) if place not in known]
        if missing:
            notes += [f"left out: {_model(place)} on {place[2]}: not in the {missing[0]} study"] * (place[3] == "final")
            continue
        one, other = (known[place] for known in groups)
        pairs = one.merge(other, on=["item_id", "metric", "filter"], suffixes=("_first", "_second"))
        if pairs.empty:
            notes += [f"left out: {_model(place)} on {place[2]}: no item in common"] * (place[3] == "final")
            continue
        tokens = {f"tokens_{name}": int(side["tokens"].iloc[0]) for name, side in (("first", one), ("second", other))}
        rows.append(dict(zip(PLACE, place, strict=True)) | tokens | _tested(pairs, np.random.default_rng(seed)))
    table = pd.DataFrame(rows)
    if rows:
        table["adjusted_p"] = holm(table["p"].to_numpy())
        table["changed"] = table["adjusted_p"] < SIGNIFICANCE
    return table, notes


def _tested(pairs: pd.DataFrame, random: np.random.Generator) -> dict[str, float]:
    """Accuracies on the common items, their difference with its interval, and the p-value of none."""
    scores = pairs[["value_first", "value_second"]].to_numpy(float)
    difference = scores[:, 1] - scores[:, 0]
    drawn = resample(difference[:, None], DRAWS, random)[:, 0]
    low, high = np.quantile(drawn, [0.025, 0.975])
    accuracy = scores.mean(axis=0)
    return {
        "items": len(pairs),
        "first": accuracy[0],
        "second": accuracy[1],
        "difference": difference.mean(),
        "low": low,
        "high": high,
        "p": paired_p(difference, random),
    }


def paired_p(difference: np.ndarray, random: np.random.Generator) -> float:
    """Two-sided p-value of paired differences [I] having no direction: exact McNemar where all are -1, 0 or 1."""
    if np.isin(difference, (-1, 0, 1)).all():
        better, worse = int((difference > 0).sum()), int((difference < 0).sum())
        return binomtest(better, better + worse).pvalue if better + worse else 1.0
    unequal = difference[difference != 0]
    signs = random.integers(0, 2, size=(SIGNS, len(unequal)), dtype=np.int8) * 2 - 1
    as_far = np.abs(signs @ unequal) >= abs(unequal.sum()) * (1 - 1e-12)
    return float((1 + as_far.sum()) / (1 + SIGNS))


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values: below the level they are significant with all tests taken together."""
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1.0)
    return adjusted[np.argsort(order)]


def _verdict(accuracies: pd.DataFrame, factors: pd.DataFrame) -> str:
    changed, tests = accuracies[accuracies["changed"]], len(accuracies)
    said = f"no accuracy of {tests} changed beyond noise"
    if len(changed):
        largest = changed.loc[changed["difference"].abs().idxmax()]
        place = f"{_model(largest[PLACE])} on {largest['task']} ({largest['checkpoint']})"
        said = (
            f"{len(changed)} of {tests} accuracies changed beyond noise, "
            f"most {place}: {largest['first']:.3f} to {largest['second']:.3f}"
        )
    known = int((factors[["low_first", "low_second"]].notna().all(axis=1)).sum())
    apart = int(factors["apart"].sum())
    return f"{said}; {apart or 'no'} factor of {known} moved beyond its interval"


def _model(place: tuple | pd.Series) -> str:
    depth, variant, *_ = place
    return str(variant) if pd.isna(depth) else f"{variant} of depth {depth}"
