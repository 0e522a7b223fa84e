"""Compute the answer by difficulty: ratios of tokens on the easy, the middle and the hard items.

Each benchmark's items are put in three groups of equal size by their learning time
(learning_times.py). The time is that of all runs of the depth together, of every variant and seed.
Groups by the baseline's runs alone would give a false answer: of the items that its seeds learned
early by luck, another model of the same kind learns many later. With all runs together no run is
special. If two models are equal, any exchange of their runs leaves the groups as they are, so their
means within a group differ by chance alone (benchmarks/intervals/difficulty.py).

Within a group, curves, ratios and intervals are those of the whole benchmark (pairs.py). The groups
stay as they are where seeds are left out and items are drawn anew. The average is over families of
benchmarks, each with its own items of a group.

Letters of shapes: I items, P checkpoints (of all runs), R replicates.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.ingest import replace_computed
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.statistics.bootstrap import (
    Checkpoint,
    Model,
    Points,
    average_values,
    averages,
    read_points,
    resample,
)
from dreamer_study.sql.statistics.compute import adds_seeds
from dreamer_study.sql.statistics.curves import SeedCurves, seed_curves
from dreamer_study.sql.statistics.errors import SIGNIFICANCE
from dreamer_study.sql.statistics.learning_times import LearningTimes, fit_times
from dreamer_study.sql.statistics.pairs import comparison_rows
from dreamer_study.sql.statistics.sequential import NOMINAL

MEASURE = "accuracy"
DIFFICULTIES = ("easy", "middle", "hard")  # in the order of learning times
# states of an item
AT_FIRST = "at first"
LEARNED = "learned"
NEVER = "never"
TIMES = "learning_times"
RATIOS = "ratios_by_difficulty"

Values = Mapping[Checkpoint, np.ndarray]  # means over items [1 + R], the first as observed


@dataclass(frozen=True)
class Answers:
    """Which answers to a task were right [I, P], by item and by checkpoint of a run."""

    items: list[str]
    columns: Mapping[Checkpoint, int]
    right: np.ndarray

    def counts(self, points: Points) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Count the answers of all seeds at a curve's points.

        Returns the log tokens [C], how many answers are right [I, C], and how many there are.
        """
        right = []
        asked = []
        for seeds in points.values():
            answers = self.right[:, [self.columns[checkpoint] for checkpoint in seeds]]
            right.append(np.nansum(answers, axis=1))
            asked.append(np.isfinite(answers).sum(axis=1))
        return np.log(list(points)), np.stack(right, axis=1), np.stack(asked, axis=1)


@dataclass(frozen=True)
class _Study:
    """What is read of a study: its curves, answers by task, and what decides its ratios."""

    baseline: str
    points: Mapping[Model, Points]
    answers: Mapping[str, Answers]
    chance: Mapping[Model, float]
    digests: Mapping[Model, str]
    weights: Mapping[str, float]  # of tasks in the average
    significance: float


def compute_difficulty(
    connection: duckdb.DuckDBPyConnection, study_id: str, *, replicates: int = 1000, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compute the learning times of a study's items and its ratios by difficulty, and store both.

    Returns the rows of the tables learning_times and ratios_by_difficulty. Raises InputError if no
    benchmark has answers to single items.
    """
    study = _read(connection, study_id)
    times: list[dict[str, Any]] = []
    ratios: list[dict[str, Any]] = []
    for depth in dict.fromkeys(depth for depth, *_ in study.points):
        points = {model: curve for model, curve in study.points.items() if model[0] == depth}
        groups = _groups(study, points)
        times += _time_rows(study, points, groups)
        ratios += _ratio_rows(study, points, groups, replicates, seed)
    stored = []
    for table, rows in ((TIMES, times), (RATIOS, ratios)):
        frame = pd.DataFrame(rows).assign(study_id=study_id)
        frame = frame.reindex(columns=connection.table(table).columns)
        replace_computed(connection, table, study_id, frame)
        stored.append(frame)
    return stored[0], stored[1]


def group_items(times: LearningTimes, share_right: np.ndarray) -> np.ndarray:
    """Put items in three groups of equal size by learning time: 0, 1 and 2, for each item [I].

    Items that were known at first, or never learned, may have one time: among these, an item with
    more right answers is the easier one, and then the first by name.
    """
    order = np.lexsort((-share_right, times.estimate))  # the last key counts first
    groups = np.empty(len(order), int)
    groups[order] = np.arange(len(order)) * len(DIFFICULTIES) // max(len(order), 1)
    return groups


def _read(connection: duckdb.DuckDBPyConnection, study_id: str) -> _Study:
    points = {
        (depth, variant, task): curve
        for (depth, variant, task), curve in read_points(connection, study_id, MEASURE).items()
        if not task.startswith(f"{AVERAGE} ")  # without a family
    }
    answers = {}
    for task in dict.fromkeys(task for *_, task in points if task != AVERAGE):
        found = _read_answers(connection, study_id, task)
        if found is not None:
            answers[task] = found
    if not answers:
        raise InputError(
            f"{study_id}: its results have no answers to single items of a benchmark, by which"
            " learning times are found"
        )
    weights = averages(connection, study_id, MEASURE).get(AVERAGE, {})
    # results that were entered by hand may lack the answers of some models
    points = {
        model: curve
        for model, curve in points.items()
        if _has_answers(answers, weights if model[2] == AVERAGE else [model[2]], curve)
    }
    measured = connection.execute(
        "select depth, variant, task, digest, chance from measured_curves"
        " where study_id = ? and metric = ?",
        [study_id, MEASURE],
    ).fetchall()
    baselines = connection.execute(
        "select baseline from variants where study_id = ? limit 1", [study_id]
    ).fetchall()
    adding = adds_seeds(connection, study_id)
    return _Study(
        baseline=baselines[0][0],
        points=points,
        answers=answers,
        chance={(*model,): chance for *model, _, chance in measured if chance is not None},
        digests={(*model,): digest for *model, digest, _ in measured},
        weights=weights,
        significance=NOMINAL if adding else SIGNIFICANCE,
    )


def _has_answers(answers: Mapping[str, Answers], tasks: Iterable[str], curve: Points) -> bool:
    """Tell whether a curve has answers to the items of all tasks at all of its checkpoints."""
    checkpoints = {checkpoint for seeds in curve.values() for checkpoint in seeds}
    return all(task in answers and checkpoints <= answers[task].columns.keys() for task in tasks)


def _read_answers(
    connection: duckdb.DuckDBPyConnection, study_id: str, task: str
) -> Answers | None:
    """Read the answers to a task; None where there are none."""
    scores = connection.execute("from paired_scores(?, ?, ?)", [study_id, MEASURE, task]).df()
    if scores.empty:
        return None
    matrix = scores.pivot(index="item_id", columns=["run_id", "tokens"], values="value")
    columns = {checkpoint: number for number, checkpoint in enumerate(matrix.columns)}
    # an answer is right in part where a metric gives shares
    right = np.ascontiguousarray(matrix.sort_index()).clip(0, 1)
    return Answers(sorted(matrix.index), columns, right)


def _groups(study: _Study, points: Mapping[Model, Points]) -> dict[str, np.ndarray]:
    """Group the items of each task [I] by the answers of all runs together."""
    groups = {}
    for task, answers in study.answers.items():
        counts = [answers.counts(curve) for model, curve in points.items() if model[2] == task]
        if not counts:
            continue
        log_tokens, right, asked = (
            np.concatenate(parts, axis=-1) for parts in zip(*counts, strict=True)
        )
        chances = [study.chance.get(model, 0.0) for model in points if model[2] == task]
        times = fit_times(log_tokens, right, asked, max(chances))
        groups[task] = group_items(times, right.sum(axis=1) / asked.sum(axis=1).clip(1))
    return groups


def _time_rows(
    study: _Study, points: Mapping[Model, Points], groups: Mapping[str, np.ndarray]
) -> Iterator[dict[str, Any]]:
    """Make the rows of learning_times: when each model learned each item."""
    for model, curve in points.items():
        depth, variant, task = model
        if task not in groups:
            continue
        answers = study.answers[task]
        log_tokens, right, asked = answers.counts(curve)
        times = fit_times(log_tokens, right, asked, study.chance.get(model, 0.0))
        states = np.select(
            [times.known_at_first, times.never_learned], [AT_FIRST, NEVER], LEARNED
        ).tolist()
        seeds = len(next(iter(curve.values())))
        for number, item in enumerate(answers.items):
            is_learned = states[number] == LEARNED
            yield {
                "depth": depth,
                "variant": variant,
                "task": task,
                "item_id": item,
                "state": states[number],
                "tokens": math.exp(times.estimate[number]) if is_learned else None,
                "low": _tokens(times.low[number]),
                "high": _tokens(times.high[number]),
                "difficulty": DIFFICULTIES[groups[task][number]],
                "share_right": right[number, -1] / max(asked[number, -1], 1),
                "seeds": seeds,
                "digest": study.digests[model],
            }


def _tokens(log_tokens: float) -> float | None:
    """Return the tokens of an end of an interval; None for an open end."""
    return math.exp(log_tokens) if math.isfinite(log_tokens) else None


def _ratio_rows(
    study: _Study,
    points: Mapping[Model, Points],
    groups: Mapping[str, np.ndarray],
    replicates: int,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Make the rows of ratios_by_difficulty: each variant against the baseline in each group."""
    for number, difficulty in enumerate(DIFFICULTIES):
        values: dict[str, Values] = {}
        items: dict[str, int] = {}
        for task, group in groups.items():
            random = np.random.default_rng([seed, zlib.crc32(task.encode()), number])
            items[task] = int((group == number).sum())
            if items[task] > 1:
                values[task] = _means(study.answers[task], group == number, replicates, random)
        if study.weights and study.weights.keys() <= values.keys():
            values[AVERAGE] = average_values(values, study.weights)
            items[AVERAGE] = sum(items[task] for task in study.weights)
        curves = {
            model: _curves(study, model, curve, values, items)
            for model, curve in points.items()
            if model[2] in values
        }
        rows = comparison_rows(
            MEASURE, curves, study.digests, {}, study.significance, baselines=[study.baseline]
        )
        for row in rows:
            if row["variant"] != study.baseline:
                yield {**row, "difficulty": difficulty, "items": items[row["task"]]}


def _means(
    answers: Answers, is_member: np.ndarray, replicates: int, random: np.random.Generator
) -> Values:
    """Average over the items of a group [1 + R] at each checkpoint: as they are, and drawn anew."""
    right = answers.right[is_member]
    means = np.vstack([np.nanmean(right, axis=0), resample(right, replicates, random)])
    return {checkpoint: means[:, column] for checkpoint, column in answers.columns.items()}


def _curves(
    study: _Study,
    model: Model,
    curve: Points,
    values: Mapping[str, Values],
    items: Mapping[str, int],
) -> SeedCurves:
    """Make the curves of a model's seeds over the items of a group."""
    task = model[2]
    of_group: Points = {
        tokens: {checkpoint: float(values[task][checkpoint][0]) for checkpoint in seeds}
        for tokens, seeds in curve.items()
    }
    weights = study.weights if task == AVERAGE else {task: 1.0}
    first = curve[min(curve)]
    errors = [
        math.hypot(
            *(
                weight * share_error(values[part][checkpoint][0], items[part])
                for part, weight in weights.items()
            )
        )
        for checkpoint in first
    ]
    # as in the view measured_curves
    noise_floor = study.chance.get(model, -np.inf) + 2 * float(np.mean(errors))
    return seed_curves(of_group, values[task], lower_is_better=False, noise_floor=noise_floor)


def share_error(share: float, items: int) -> float:
    """Return the standard error of a share of right answers, with lm-eval's n - 1."""
    return math.sqrt(share * (1 - share) / (items - 1))
