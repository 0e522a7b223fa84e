"""Draw bootstrap replicates of scores: what a study's checkpoints score with other items of the
same benchmarks.

A replicate draws the items of a task with replacement. All models and checkpoints of the task get
the same items, so that their errors go together (a paired bootstrap); tasks are drawn
independently, and 'average' is the average over families of tasks in each replicate.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping

import duckdb
import numpy as np

from dreamer_study.sql.names import AVERAGE

COUNTS_IN_MEMORY = 8_000_000  # item counts held at once

Checkpoint = tuple[str, int]  # run, tokens
Model = tuple[int | None, str, str]  # depth, variant, task
# The values of the seeds by the curve's ascending tokens, the seeds in one order at every point.
Points = dict[int, dict[Checkpoint, float]]


def resample(scores: np.ndarray, replicates: int, random: np.random.Generator) -> np.ndarray:
    """Average scores [I, P] over items drawn with replacement: means [R, P], one draw a replicate
    for all P columns.

    A column is averaged over its own of the items drawn: a score that is not there is NaN.
    """
    items, there = len(scores), np.isfinite(scores).astype(float)
    known, whole = np.nan_to_num(scores), bool(there.all())
    means = np.empty((replicates, scores.shape[1]))
    block = max(1, COUNTS_IN_MEMORY // items)
    for start in range(0, replicates, block):
        # A mean depends only on how often each item is drawn.
        counts = random.multinomial(
            items, np.full(items, 1 / items), size=min(block, replicates - start)
        )
        with np.errstate(invalid="ignore"):  # of a column, none of whose items is drawn
            means[start : start + block] = (
                counts.astype(float) @ known / (items if whole else counts @ there)
            )
    return means


def replicate_values(
    connection: duckdb.DuckDBPyConnection, study_id: str, measure: str, replicates: int, seed: int
) -> dict[str, dict[Checkpoint, np.ndarray]]:
    """Draw the means over items at every scored checkpoint of every task [1 + R], as observed and
    in each replicate.

    `measure` is 'accuracy' or 'loss'. The average over the study's averaged tasks is a task of its
    own.
    """
    tasks = connection.execute(
        "select task from chosen_metric where study_id = ? and kind = ? order by task",
        [study_id, measure],
    ).fetchall()
    values = {
        task: _task_values(connection, (study_id, measure, task), replicates, seed)
        for (task,) in tasks
    }
    for name, weights in averages(connection, study_id, measure).items():
        values[name] = _average_values(values, weights)
    return values


def averages(
    connection: duckdb.DuckDBPyConnection, study_id: str, measure: str
) -> dict[str, dict[str, float]]:
    """Read the weights of the averaged tasks by task: in the average, and in each average that
    leaves out a family.

    These are named by `without`.
    """
    asked = (
        "select task, family, weight from chosen_metric where study_id = ? and kind = ? and"
        " averaged order by task"
    )
    rows = connection.execute(asked, [study_id, measure]).fetchall()
    found = {AVERAGE: {task: weight for task, _, weight in rows}} if rows else {}
    for left_out in sorted({family for _, family, _ in rows}):
        kept = {task: weight for task, family, weight in rows if family != left_out}
        total = sum(kept.values())
        if kept:
            found[without(left_out)] = {task: weight / total for task, weight in kept.items()}
    return found


def without(family: str) -> str:
    """Name the average that leaves out a family of tasks, as rows of computed_factors do."""
    return f"{AVERAGE} without {family}"


def read_points(
    connection: duckdb.DuckDBPyConnection, study_id: str, measure: str
) -> dict[Model, Points]:
    """Read the points of every curve of a study with the values of the seeds; also of averages
    without a family."""
    points: dict[Model, Points] = defaultdict(lambda: defaultdict(dict))
    for depth, variant, task, tokens, run_id, run_tokens, value in connection.execute(
        "select depth, variant, task, tokens, run_id, run_tokens, value from curve_points "
        "where study_id = ? and measure = ? order by tokens, run_id",
        [study_id, measure],
    ).fetchall():
        points[depth, variant, task][tokens][run_id, run_tokens] = value
    scored = (
        "select task, run_id, tokens, value from counted_scores where study_id = ? and measure = ?"
    )
    values: dict[str, dict[Checkpoint, float]] = defaultdict(dict)
    for task, run_id, run_tokens, value in connection.execute(
        scored, [study_id, measure]
    ).fetchall():
        values[task][run_id, run_tokens] = value
    known = {model[:2]: curve for model, curve in points.items() if model[2] == AVERAGE}
    for name, weights in averages(connection, study_id, measure).items():
        for model, curve in known.items() if name != AVERAGE else ():
            points[*model, name] = {
                tokens: {
                    place: sum(weight * values[task][place] for task, weight in weights.items())
                    for place in seeds
                }
                for tokens, seeds in curve.items()
            }
    return points


def _task_values(
    connection: duckdb.DuckDBPyConnection, place: tuple[str, str, str], replicates: int, seed: int
) -> dict[Checkpoint, np.ndarray]:
    """Return the mean of each checkpoint [1 + R] over its items, which are drawn together for all
    checkpoints.

    `place` is study, measure and task. Accuracy and loss of a task get the same draws where both
    have as many items.
    """
    scores = connection.execute("from paired_scores(?, ?, ?)", place).df()
    matrix = scores.pivot(index="item_id", columns=["run_id", "tokens"], values="value").sort_index(
        axis=1
    )
    # no task's draws depend on other tasks
    random = np.random.default_rng([seed, zlib.crc32(place[2].encode())])
    if scores.empty:
        return _values_within_errors(connection, place, replicates, random)
    values = np.ascontiguousarray(matrix)
    means = np.vstack([np.nanmean(values, axis=0), resample(values, replicates, random)])
    return {checkpoint: means[:, column] for column, checkpoint in enumerate(matrix.columns)}


def _values_within_errors(
    connection: duckdb.DuckDBPyConnection,
    place: tuple[str, str, str],
    replicates: int,
    random: np.random.Generator,
) -> dict[Checkpoint, np.ndarray]:
    """Draw values [1 + R] by their standard errors, for a task of which no scores of items are
    known.

    The errors of a model's checkpoints and seeds go together, since all answer the same items.
    Those of two models are drawn apart: nothing says how much of them is common, so that an
    interval is rather too wide than too narrow.
    """
    points = connection.execute(
        "select depth, variant, run_id, run_tokens, value, stderr from curve_points "
        "where (study_id, measure, task) = (?, ?, ?) and stderr is not null order by all",
        place,
    ).fetchall()
    errors = {
        model: np.append(0, random.standard_normal(replicates))
        for model in dict.fromkeys(p[:2] for p in points)
    }
    return {
        (run_id, tokens): value + stderr * errors[depth, variant]
        for depth, variant, run_id, tokens, value, stderr in points
    }


def _average_values(
    values: Mapping[str, Mapping[Checkpoint, np.ndarray]], weights: Mapping[str, float]
) -> dict[Checkpoint, np.ndarray]:
    """Average over weighted tasks at the checkpoints that all of them have."""
    common = set.intersection(*(set(values[task]) for task in weights))
    return {
        checkpoint: sum(weight * values[task][checkpoint] for task, weight in weights.items())
        for checkpoint in common
    }
