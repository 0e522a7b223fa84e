"""95 % intervals of the data-efficiency factors, by a paired bootstrap over benchmark items.

A factor is read off two noisy curves: which checkpoint has the baseline's best, and which of the variant's first has as
much, would come out differently with other items of the same benchmark. So in each replicate the items are drawn anew
with replacement, and best, target and crossing are computed again from the curves of that draw. The draw is the same
for all models and checkpoints of a task (they answer the same items, and their errors go together); tasks have
different items and are drawn independently, and 'average' is computed on the average curve of each replicate. Where a
model was trained with several seeds, its runs are drawn with replacement as well, the same for all tasks; two or three
seeds show less than the true spread between them, so such intervals are somewhat too short.

What a replicate cannot say is not made up. Where the variant never reaches the target, its factor is known to be at
most baseline tokens over tokens trained: the low end counts it as 0, the high end as that limit. Where its first
checkpoint has the target, the factor is known to be at least that ratio: the low end counts it as that, the high end as
infinite. So a low end of 0 or a high end of infinity says that the study does not limit the factor on that side.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

COLUMNS = ("study_id", "depth", "variant", "task", "rule", "low", "high", "share_reached", "replicates", "seed")
RULES = ("first", "interpolated")  # as in data_efficiency and in data_efficiency_interpolated
BASELINE = "LA"
AVERAGE = "average"
CONFIDENCE = 0.95
TIE = 4e-15  # as in reaches.sql: sums in another order are still ties
COUNTS_IN_MEMORY = 8_000_000  # drawn item counts held at once

Checkpoint = tuple[str, int]  # run, tokens


@dataclass(frozen=True)
class Curve:
    """One model's accuracy curve in every replicate: `tokens` [C] ascending, `accuracy` [R, C] for R replicates."""

    tokens: np.ndarray
    accuracy: np.ndarray


@dataclass(frozen=True)
class Factors:
    """The factor of each replicate [R]: its value or limit, and whether it is a limit from above or from below."""

    value: np.ndarray
    at_most: np.ndarray
    at_least: np.ndarray


def factor_intervals(
    connection: duckdb.DuckDBPyConnection, study_id: str, *, replicates: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """The intervals of every row of `data_efficiency` of a study, by both rules, as rows of table `factor_intervals`.

    A writing connection also puts them into that table, in place of the study's earlier ones. The same seed gives the
    same intervals, whatever other tasks the study has. Without scores of every item at every checkpoint of both models
    there is no interval: low, high and share_reached are null.
    """
    wanted = connection.execute(
        "select depth, variant, task from data_efficiency where study_id = ?", [study_id]
    ).fetchall()
    curves = _replicate_curves(connection, study_id, replicates, seed)
    rows = []
    for depth, variant, task in wanted:
        baseline, own = curves.get((depth, BASELINE, task)), curves.get((depth, variant, task))
        for rule in RULES:
            found: tuple = (None, None, None)
            if own and variant == BASELINE:
                found = (1.0, 1.0, 1.0)  # against itself, whatever is drawn
            elif own and baseline:
                factors = crossing_factors(baseline, own, interpolated=rule == "interpolated")
                found = (*interval(factors), float(1 - factors.at_most.mean()))
            rows.append((study_id, depth, variant, task, rule, *found, replicates, seed))
    frame = pd.DataFrame(rows, columns=COLUMNS).astype({"depth": "Int64"})
    writable = "select not readonly from duckdb_databases() where database_name = current_database()"
    if connection.execute(writable).fetchall()[0][0]:
        connection.register("intervals", frame)
        connection.execute("begin")
        connection.execute("delete from factor_intervals where study_id = ?", [study_id])
        connection.execute(f"insert into factor_intervals ({', '.join(COLUMNS)}) select * from intervals")
        connection.execute("commit")
        connection.unregister("intervals")
    return frame


def crossing_factors(baseline: Curve, variant: Curve, *, interpolated: bool) -> Factors:
    """Baseline tokens over variant tokens to the baseline's best, in each replicate, as the two views define it."""
    best = baseline.accuracy.max(axis=1)
    goal = (best - TIE * np.abs(best))[:, None]
    needed = baseline.tokens[(baseline.accuracy >= goal).argmax(axis=1)]
    reaches = variant.accuracy >= goal
    reached, at = reaches.any(axis=1), reaches.argmax(axis=1)
    spent = variant.tokens[at].astype(float)
    if interpolated:
        inner = np.flatnonzero(reached & (at > 0))
        after, before = at[inner], at[inner] - 1
        value_after, value_before = variant.accuracy[inner, after], variant.accuracy[inner, before]
        share = np.maximum(0, (value_after - best[inner]) / (value_after - value_before))
        spent[inner] *= (variant.tokens[before] / variant.tokens[after]) ** share
    spent[~reached] = variant.tokens[-1]
    return Factors(needed / spent, at_most=~reached, at_least=reached & (at == 0))


def interval(factors: Factors, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Low and high end of the percentile interval; 0 and infinity where it is open (see the module's text)."""
    tail = (1 - confidence) / 2
    low = np.quantile(np.where(factors.at_most, 0.0, factors.value), tail, method="lower")
    high = np.quantile(np.where(factors.at_least, np.inf, factors.value), 1 - tail, method="higher")
    return float(low), float(high)


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


def _replicate_curves(
    connection: duckdb.DuckDBPyConnection, study_id: str, replicates: int, seed: int
) -> dict[tuple[int | None, str, str], Curve]:
    """The replicate curves of every model and task, the average among them, for which all scores are there."""
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
    """The accuracy of each checkpoint in every replicate [R], over the items that all scored checkpoints have."""
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
    means = resample(matrix, replicates, _generator(seed, task))
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
    if len(runs) == 1:
        weights = np.ones((replicates, 1))
    else:
        # Named by the runs, so that all tasks of a model see the same draw.
        draws = _generator(seed, *runs).multinomial(len(runs), np.full(len(runs), 1 / len(runs)), size=replicates)
        weights = draws / len(runs)
    columns = [
        sum(w * accuracy[c] for w, c in zip(weights.T, checkpoints, strict=True)) for checkpoints in points.values()
    ]
    return Curve(np.array(list(points)), np.stack(columns, axis=1))


def _generator(seed: int, *names: str) -> np.random.Generator:
    """Random numbers of their own for each name, so that adding a task leaves the intervals of others as they are."""
    return np.random.default_rng([seed, zlib.crc32("\0".join(names).encode())])
