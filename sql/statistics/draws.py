"""Accuracy curves and their draws: what every curve of a study would be with other items of the same benchmarks.

In each draw the items are taken anew with replacement. The draw is the same for all models and checkpoints of a task
(they answer the same items, and their errors go together); tasks have different items and are drawn independently, and
'average' is the average curve of each draw. Where a model was trained with several seeds, its runs are drawn with
replacement as well, the same for all tasks.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

AVERAGE = "average"
COUNTS_IN_MEMORY = 8_000_000  # drawn item counts held at once

Checkpoint = tuple[str, int]  # run, tokens
Model = tuple[int | None, str, str]  # depth, variant, task


@dataclass(frozen=True)
class Curve:
    """A model's curve: `tokens` [C] ascending, `accuracy` [1 + R, C] as observed and in each of R replicates."""

    tokens: np.ndarray
    accuracy: np.ndarray


def resample(scores: np.ndarray, replicates: int, generator: np.random.Generator) -> np.ndarray:
    """Means [R, P] of scores [I, P] over items drawn with replacement, one draw a replicate for all P columns."""
    items = len(scores)
    means = np.empty((replicates, scores.shape[1]))
    block = max(1, COUNTS_IN_MEMORY // items)
    for start in range(0, replicates, block):
        # How often each item was drawn is all that a mean needs to know of a draw.
        counts = generator.multinomial(items, np.full(items, 1 / items), size=min(block, replicates - start))
        means[start : start + block] = counts.astype(float) @ scores / items
    return means


def replicate_curves(
    connection: duckdb.DuckDBPyConnection, study_id: str, replicates: int, seed: int
) -> dict[Model, Curve]:
    """The curves of every model (depth, variant) and task, the average among them, for which all scores are there."""
    averaged = connection.execute(
        "select task, averaged from chosen_metric where study_id = ? and kind = 'accuracy' order by task", [study_id]
    ).fetchall()
    accuracy = {task: _task_accuracy(connection, study_id, task, replicates, seed) for task, _ in averaged}
    accuracy[AVERAGE] = _average_accuracy([accuracy[task] for task, counts in averaged if counts])
    points: dict[tuple, dict[int, list[Checkpoint]]] = defaultdict(lambda: defaultdict(list))
    for depth, variant, task, tokens, run_id, run_tokens in connection.execute(
        "select depth, variant, task, tokens, run_id, run_tokens from curve_points "
        "where study_id = ? and measure = 'accuracy' order by tokens, run_id",
        [study_id],
    ).fetchall():
        points[depth, variant, task][tokens].append((run_id, run_tokens))
    curves = {}
    for key, curve_points in points.items():
        of_task = accuracy[key[2]]
        if all(checkpoint in of_task for runs in curve_points.values() for checkpoint in runs):
            curves[key] = _curve(curve_points, of_task, replicates, seed)
    return curves


def _task_accuracy(
    connection: duckdb.DuckDBPyConnection, study_id: str, task: str, replicates: int, seed: int
) -> dict[Checkpoint, np.ndarray]:
    """The accuracy of each checkpoint [1 + R], over the items that all scored checkpoints have."""
    points = connection.execute("select run_id, tokens from scored_points(?, ?)", [study_id, task]).fetchall()
    scores = connection.execute("select point, item, value from paired_scores(?, ?)", [study_id, task]).fetchnumpy()
    if not len(scores["item"]):
        return {}
    matrix = np.full((scores["item"].max() + 1, len(points)), np.nan)
    matrix[scores["item"], scores["point"]] = scores["value"]
    scored = np.flatnonzero(~np.isnan(matrix).all(axis=0))
    matrix = matrix[:, scored]
    matrix = matrix[~np.isnan(matrix).any(axis=1)]
    if not len(matrix):
        return {}
    means = np.vstack([matrix.mean(axis=0), resample(matrix, replicates, generator(seed, task))])
    return {points[point]: means[:, column] for column, point in enumerate(scored)}


def _average_accuracy(tasks: Sequence[Mapping[Checkpoint, np.ndarray]]) -> dict[Checkpoint, np.ndarray]:
    """The plain mean over tasks at the checkpoints that all of them have."""
    if not tasks:
        return {}
    common = set(tasks[0]).intersection(*tasks[1:])
    return {checkpoint: np.mean([task[checkpoint] for task in tasks], axis=0) for checkpoint in common}


def _curve(
    points: Mapping[int, Sequence[Checkpoint]], accuracy: Mapping[Checkpoint, np.ndarray], replicates: int, seed: int
) -> Curve:
    """The mean curve over seeds, which are drawn with replacement in each replicate when there are several."""
    runs = [run_id for run_id, _ in next(iter(points.values()))]
    weights = np.full((1 + replicates, len(runs)), 1 / len(runs))
    if len(runs) > 1:
        # Named by the runs, so that all tasks of a model see the same draw.
        draws = generator(seed, *runs).multinomial(len(runs), weights[0], size=replicates)
        weights[1:] = draws / len(runs)
    columns = [
        sum(w * accuracy[c] for w, c in zip(weights.T, checkpoints, strict=True)) for checkpoints in points.values()
    ]
    return Curve(np.array(list(points)), np.stack(columns, axis=1))


def generator(seed: int, *names: str) -> np.random.Generator:
    """Random numbers of their own for each name, so that adding a task leaves the intervals of others as they are."""
    return np.random.default_rng([seed, zlib.crc32("\0".join(names).encode())])
