"""95 % intervals of the data-efficiency factors, by a paired bootstrap over benchmark items.

A factor is read off two noisy curves: which checkpoint has the baseline's best, and which of the variant's first has as
much, would come out differently with other items of the same benchmark. So in each replicate the items are drawn anew
with replacement, and goal and crossing are computed again from the curves of that draw. The draw is the same for all
models and checkpoints of a task (they answer the same items, and their errors go together); tasks have different items
and are drawn independently, and 'average' is computed on the average curve of each replicate. Where a model was trained
with several seeds, its runs are drawn with replacement as well, the same for all tasks; two or three seeds show less
than the true spread between them, so such intervals are somewhat too short.

Which checkpoint is the baseline's best cannot be drawn like that: where the baseline has stopped rising, its best
checkpoint is a matter of luck, and drawing items again repeats that luck (benchmarks/coverage.py has the numbers). So
the interval is made in two steps. First, all checkpoints are found that may be the baseline's best: those whose
distance from the best observed is within what the draws explain. Then each of them is held fixed as the place of the
goal, the factor's interval is computed for it, and the result spans them all. Where the best is clear this is the plain
interval; on a plateau it is as wide as it has to be, and the first and the last of those checkpoints, `goal_first` and
`goal_last`, say why. Noise of training itself, which drawing items cannot show, is in the intervals of curves.py only.

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

from sql.results import replace_computed

COLUMNS = (
    *("study_id", "depth", "variant", "task", "rule", "low", "high"),
    *("share_reached", "replicates", "seed", "goal_first", "goal_last"),
)
RULES = ("first", "interpolated")  # as in data_efficiency and in data_efficiency_interpolated
BASELINE = "LA"
AVERAGE = "average"
CONFIDENCE = 0.95
# Of the distance from the best observed within which a checkpoint may be the best. Calibrated by
# benchmarks/coverage.py: with 0.95 all intervals covered 99 to 100 % and were wide for nothing, with 0.5 those of
# baselines that level off covered 91 to 94 %.
GOAL_CONFIDENCE = 0.6
TIE = 4e-15  # as in reaches.sql: sums in another order are still ties
COUNTS_IN_MEMORY = 8_000_000  # drawn item counts held at once

Checkpoint = tuple[str, int]  # run, tokens


@dataclass(frozen=True)
class Curve:
    """A model's curve: `tokens` [C] ascending, `accuracy` [1 + R, C] as observed and in each of R replicates."""

    tokens: np.ndarray
    accuracy: np.ndarray


@dataclass(frozen=True)
class Goals:
    """The checkpoints that may be a baseline's best: tokens [G] ascending and accuracy [1 + R, G]."""

    tokens: np.ndarray
    accuracy: np.ndarray


@dataclass(frozen=True)
class Factors:
    """The factor of each row of a curve: its value or limit, and whether it is a limit from above or from below."""

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
    curves = replicate_curves(connection, study_id, replicates, seed)
    goals = {key: possible_goals(curve) for key, curve in curves.items() if key[1] == BASELINE}
    rows = []
    for depth, variant, task in wanted:
        baseline, own = goals.get((depth, BASELINE, task)), curves.get((depth, variant, task))
        for rule in RULES:
            found: tuple = (None, None, None)
            if own and variant == BASELINE:
                found = (1.0, 1.0, 1.0)  # against itself, whatever is drawn
            elif own and baseline:
                found = factor_interval(baseline, own, interpolated=rule == "interpolated")
            span = (int(baseline.tokens[0]), int(baseline.tokens[-1])) if baseline else (None, None)
            rows.append((study_id, depth, variant, task, rule, *found, replicates, seed, *span))
    frame = pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(("depth", "goal_first", "goal_last"), "Int64"))
    replace_computed(connection, study_id, {"factor_intervals": frame})
    return frame


def possible_goals(baseline: Curve, confidence: float = GOAL_CONFIDENCE) -> Goals:
    """The checkpoints that may be the baseline's best, the first best observed among them.

    A checkpoint that truly is the best lies below the best observed by no more than the largest error of all
    checkpoints minus its own. The draws say how large that can be: a confidence set for the place of a maximum.
    """
    observed, errors = baseline.accuracy[0], baseline.accuracy[1:] - baseline.accuracy[0]
    explained = np.quantile(errors.max(axis=1, keepdims=True) - errors, confidence, axis=0, method="higher")
    best = observed.max()
    possible = np.flatnonzero(reaches(observed + explained, best))
    # Of equal ones the first is the goal, as in the views: what only ties with an earlier one in every draw adds none.
    first: dict[bytes, int] = {}
    for point in possible[::-1]:
        first[baseline.accuracy[:, point].tobytes()] = point
    kept = np.sort(np.array(list(first.values())))
    return Goals(baseline.tokens[kept], baseline.accuracy[:, kept])


def factor_interval(goals: Goals, variant: Curve, *, interpolated: bool) -> tuple[float, float, float]:
    """Low and high end over all possible goals, and the share of replicates in which the variant reaches the goal.

    The goal of that share is the best of the possible goals in the replicate.
    """
    drawn = Curve(variant.tokens, variant.accuracy[1:])
    ends = [
        interval(crossing_factors(tokens, accuracy[1:], drawn, interpolated=interpolated))
        for tokens, accuracy in zip(goals.tokens, goals.accuracy.T, strict=True)
    ]
    lows, highs = zip(*ends, strict=True)
    best = goals.accuracy[1:].max(axis=1)
    return min(lows), max(highs), float(reaches(drawn.accuracy.max(axis=1), best).mean())


def crossing_factors(goal_tokens: float, goal: np.ndarray, variant: Curve, *, interpolated: bool) -> Factors:
    """Goal tokens over the variant's tokens to the goal's accuracy [R], for each row of its curve, as the views do."""
    reached_at = reaches(variant.accuracy, goal[:, None])
    reached, at = reached_at.any(axis=1), reached_at.argmax(axis=1)
    spent = variant.tokens[at].astype(float)
    if interpolated:
        inner = np.flatnonzero(reached & (at > 0))
        after, before = at[inner], at[inner] - 1
        value_after, value_before = variant.accuracy[inner, after], variant.accuracy[inner, before]
        share = np.maximum(0, (value_after - goal[inner]) / (value_after - value_before))
        spent[inner] *= (variant.tokens[before] / variant.tokens[after]) ** share
    spent[~reached] = variant.tokens[-1]
    return Factors(goal_tokens / spent, at_most=~reached, at_least=reached & (at == 0))


def reaches(value: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """As in reaches.sql: sums in another order are still ties."""
    return value >= goal - TIE * np.abs(goal)


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


def replicate_curves(
    connection: duckdb.DuckDBPyConnection, study_id: str, replicates: int, seed: int
) -> dict[tuple[int | None, str, str], Curve]:
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
