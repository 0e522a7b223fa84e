"""Draw bootstrap replicates of scores: the scores of checkpoints on other items of the benchmarks.

A replicate draws the items of a task with replacement. All models and checkpoints of the task get
the same items, so their errors are correlated (a paired bootstrap). Tasks are drawn independently.
In each replicate, 'average' is the average over families of tasks.

Letters of shapes: I items, P checkpoints (of all models), R replicates. The first of [1 + R] values
is the observed one.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

import duckdb
import numpy as np

from dreamer_study.sql.names import AVERAGE

# Item counts held at once: 64 MB as int64, and as much again as float64 for the product. Results do
# not depend on this number, as numpy draws row after row.
COUNTS_IN_MEMORY = 8_000_000

Checkpoint = tuple[str, int]  # run, tokens: ("LA-s0", 1_000_000)
# depth, variant, run, tokens of the run, value, standard error
PointWithError = tuple[int | None, str, str, int, float, float]
Model = tuple[int | None, str, str]  # depth, variant, task: (4, "LA", "gsm8k")
# The values of the seeds by the curve's ascending tokens, which are the mean of the runs' own. The
# seeds are in one order at every point, and every point has all of them:
# {1_000_000: {("LA-s0", 1_000_000): 0.31, ("LA-s1", 1_000_000): 0.33}, ...}
Points = dict[int, dict[Checkpoint, float]]


def resample(scores: np.ndarray, replicates: int, random: np.random.Generator) -> np.ndarray:
    """Average scores [I, P] over items drawn with replacement: means [R, P].

    A replicate has one draw for all P columns. A missing score is NaN, and each column is averaged
    over the drawn items that it has.
    """
    items = len(scores)
    has_score = np.isfinite(scores).astype(float)
    has_all = bool(has_score.all())
    zero_filled = np.nan_to_num(scores)
    even = np.full(items, 1 / items)
    means = np.empty((replicates, scores.shape[1]))
    block = max(1, COUNTS_IN_MEMORY // items)
    for start in range(0, replicates, block):
        # A mean depends only on how often each item is drawn: counts [block, I].
        counts = random.multinomial(items, even, size=min(block, replicates - start))
        # Where all scores are there, `items` are drawn of each column, and a product is saved.
        drawn_of_column = items if has_all else counts @ has_score
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN: a column, none of whose items is drawn
            means[start : start + block] = counts.astype(float) @ zero_filled / drawn_of_column
    return means


def replicate_values(
    connection: duckdb.DuckDBPyConnection, study_id: str, measure: str, replicates: int, seed: int
) -> dict[str, dict[Checkpoint, np.ndarray]]:
    """Draw the means over items [1 + R] at every scored checkpoint of every task.

    `measure` is 'accuracy' or 'loss'. The average over tasks is also a task.
    """
    tasks = connection.execute(
        "select task from chosen_metric where study_id = ? and kind = ? order by task",
        [study_id, measure],
    ).fetchall()
    points = _points_with_errors(connection, study_id, measure)
    values = {
        task: _task_values(connection, study_id, measure, task, points[task], replicates, seed)
        for (task,) in tasks
    }
    for name, weights in averages(connection, study_id, measure).items():
        values[name] = average_values(values, weights)
    return values


def averages(
    connection: duckdb.DuckDBPyConnection, study_id: str, measure: str
) -> dict[str, dict[str, float]]:
    """Read the weights of tasks in the average, and in each average that leaves out a family.

    `without` names the averages that leave out a family. Example:
    {"average": {"gsm8k": 0.5, "math": 0.5}, "average without gsm8k": {"math": 1.0}, ...}
    """
    query = (
        "select task, family, weight from chosen_metric where study_id = ? and kind = ? and"
        " averaged order by task"
    )
    rows = connection.execute(query, [study_id, measure]).fetchall()
    if not rows:
        return {}
    # These weights add up to 1, an equal share for each family.
    weights_by_name = {AVERAGE: {task: weight for task, _, weight in rows}}
    for left_out in sorted({family for _, family, _ in rows}):
        kept = {task: weight for task, family, weight in rows if family != left_out}
        total = sum(kept.values())
        if kept:
            weights_by_name[without(left_out)] = {
                task: weight / total for task, weight in kept.items()
            }
    return weights_by_name


def without(family: str) -> str:
    """Return the name of the average without a family of tasks, as in computed_ratios."""
    return f"{AVERAGE} without {family}"


def read_points(
    connection: duckdb.DuckDBPyConnection, study_id: str, measure: str
) -> dict[Model, Points]:
    """Read the points of every curve of a study with the values of the seeds.

    The averages that leave out a family have curves, too.
    """
    points: dict[Model, Points] = defaultdict(lambda: defaultdict(dict))
    # The order gives `Points` theirs: ascending tokens, and seeds by the name of their run.
    point_rows = connection.execute(
        "select depth, variant, task, tokens, run_id, run_tokens, value from curve_points "
        "where study_id = ? and measure = ? order by tokens, run_id",
        [study_id, measure],
    ).fetchall()
    for depth, variant, task, tokens, run_id, run_tokens, value in point_rows:
        points[depth, variant, task][tokens][run_id, run_tokens] = value
    score_rows = connection.execute(
        "select task, run_id, tokens, value from counted_scores where study_id = ? and measure = ?",
        [study_id, measure],
    ).fetchall()
    values: dict[str, dict[Checkpoint, float]] = defaultdict(dict)
    for task, run_id, run_tokens, value in score_rows:
        values[task][run_id, run_tokens] = value

    # An average without a family has the points of the average.
    average_curves = {model[:2]: curve for model, curve in points.items() if model[2] == AVERAGE}
    weights_by_name = averages(connection, study_id, measure)
    all_weights = weights_by_name.pop(AVERAGE, {})
    checkpoints = [
        checkpoint
        for curve in average_curves.values()
        for seeds in curve.values()
        for checkpoint in seeds
    ]
    # All values of a task at once [P]: a study of many tasks has as many of these averages.
    values_of_task = {
        task: np.array([values[task][checkpoint] for checkpoint in checkpoints])
        for task in all_weights
    }
    for name, weights in weights_by_name.items():
        averaged = sum(weight * values_of_task[task] for task, weight in weights.items())
        value_at = dict(zip(checkpoints, averaged.tolist(), strict=True))
        for (depth, variant), curve in average_curves.items():
            points[depth, variant, name] = {
                tokens: {checkpoint: value_at[checkpoint] for checkpoint in seeds}
                for tokens, seeds in curve.items()
            }
    return points


def _task_values(
    connection: duckdb.DuckDBPyConnection,
    study_id: str,
    measure: str,
    task: str,
    points: Sequence[PointWithError],
    replicates: int,
    seed: int,
) -> dict[Checkpoint, np.ndarray]:
    """Return the mean [1 + R] of each checkpoint over items that are drawn once for all.

    Accuracy and loss of a task get the same draws if both have the same number of items.
    """
    scores = connection.execute("from paired_scores(?, ?, ?)", [study_id, measure, task]).df()
    # A hash of the name, so that no task's draws depend on the other tasks; CRC, as Python's own
    # hash of a text differs from process to process. Without the measure: see above.
    random = np.random.default_rng([seed, zlib.crc32(task.encode())])
    if scores.empty:
        return _values_within_errors(points, replicates, random)
    matrix = scores.pivot(index="item_id", columns=["run_id", "tokens"], values="value")
    matrix = matrix.sort_index(axis=1)
    values = np.ascontiguousarray(matrix)  # [I, P]
    means = np.vstack([np.nanmean(values, axis=0), resample(values, replicates, random)])
    return {checkpoint: means[:, column] for column, checkpoint in enumerate(matrix.columns)}


def _points_with_errors(
    connection: duckdb.DuckDBPyConnection, study_id: str, measure: str
) -> dict[str, list[PointWithError]]:
    """Read the points that have a standard error, by task, in one query to save time."""
    rows = connection.execute(
        "select task, depth, variant, run_id, run_tokens, value, stderr from curve_points "
        "where (study_id, measure) = (?, ?) and stderr is not null order by all",
        [study_id, measure],
    ).fetchall()
    points: dict[str, list[PointWithError]] = defaultdict(list)
    for task, *point in rows:
        points[task].append(tuple(point))
    return points


def _values_within_errors(
    points: Sequence[PointWithError], replicates: int, random: np.random.Generator
) -> dict[Checkpoint, np.ndarray]:
    """Draw values [1 + R] from their standard errors, for a task without scores of items.

    All checkpoints and seeds of a model answer the same items, so one normal number moves the whole
    curve, each point by its own standard error. The errors of two models are drawn independently,
    because their correlation is unknown; the intervals are then rather too wide than too narrow.
    """
    models = dict.fromkeys((depth, variant) for depth, variant, *_ in points)
    # row 0 is the observed one
    errors = {model: np.append(0, random.standard_normal(replicates)) for model in models}
    return {
        (run_id, tokens): value + stderr * errors[depth, variant]
        for depth, variant, run_id, tokens, value, stderr in points
    }


def average_values(
    values: Mapping[str, Mapping[Checkpoint, np.ndarray]], weights: Mapping[str, float]
) -> dict[Checkpoint, np.ndarray]:
    """Average over weighted tasks at the checkpoints that all of them have."""
    common = set.intersection(*(set(values[task]) for task in weights))
    return {
        checkpoint: sum(weight * values[task][checkpoint] for task, weight in weights.items())
        for checkpoint in common
    }
