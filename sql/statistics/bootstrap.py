"""95 % intervals of the data-efficiency factors, by a paired bootstrap over benchmark items and noise of training.

A factor is read off two noisy curves: which checkpoint has the baseline's best, and which of the variant's first has as
much, would come out differently with other items of the same benchmark. So in each replicate the items are drawn anew
(draws.py), and goal and crossing are computed again from the curves of that draw. The same goes for training: what its
ups and downs did to a checkpoint is luck. So every replicate also has normal noise at every checkpoint of every curve,
with the variance of the checkpoints around a smooth curve that the items do not explain (fit.py): none where there is
no such excess, or fewer than eight checkpoints to see it. Of several seeds the runs are drawn with replacement, too;
two or three seeds show less than the true spread between them, so such intervals are somewhat too short.

What the interval is for is the factor of the *expected* curves: the mean over benchmarks of such items and over the ups
and downs of training, at the same checkpoints. Luck that a whole training has, as with another initialisation, shows in
no scatter around its own curve; only several seeds show it. The factor in data_efficiency is not an unbiased estimate
of it where training is noisy: the best of many noisy checkpoints is too high a goal, and the first of many noisy
checkpoints to reach a goal does so too early. Nothing makes the two cancel, so the interval need not be centred on that
factor. The fitted factor (efficiency_fitted) has neither bias as far as its curves are right.

Which checkpoint is the baseline's best cannot be drawn like the rest: where the baseline has stopped rising, its best
checkpoint is a matter of luck, and drawing again repeats that luck (benchmarks/coverage.py has the numbers). So every
checkpoint is asked how plausible it is as the baseline's best, p: how often the draws' errors alone put it as far below
the best as it is observed. Each is held fixed as the place of the goal, the factor's interval is computed for it, and
the result spans them all. A goal's own interval has the error probability

    0.05 * min(sum of p, MOST_DOUBT) / p ^ SHARPNESS        (none where that is 1 or more)

so that a doubtful goal adds only the middle of its interval. Where the best is clear this is a plain 95 % interval;
with several plausible goals the span covers more than each, so that each needs to cover less. On a plateau the result
is as wide as it has to be; the first and the last of the goals, `goal_first` and `goal_last`, say why. Both constants
were calibrated on simulated studies other than those whose coverage is reported.

What a replicate cannot say is not made up. Where the variant never reaches the target, its factor is known to be at
most baseline tokens over tokens trained: the low end counts it as 0, the high end as that limit. Where its first
checkpoint has the target, the factor is known to be at least that ratio: the low end counts it as that, the high end as
infinite. So a low end of 0 or a high end of infinity says that the study does not limit the factor on that side.

The first rule's factor is a ratio of two checkpoints, so that many replicates have the very same one. Half of those
equal to an end count towards its 2.5 % (mid-p): if all did, intervals would cover more than they say, if none did,
much less; where few ratios are possible, nothing gives exactly 95 %. So do half of the replicates that are limits: an
interval whose truth is a limit can miss on one side only, and there it may miss as often as others do on both.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

from sql.results import replace_computed
from sql.statistics.curves import observed_points
from sql.statistics.draws import Curve, generator, replicate_curves
from sql.statistics.fit import PARAMETERS, Points, fit_curve, training_variance

COLUMNS = (
    *("study_id", "depth", "variant", "task", "rule", "low", "high"),
    *("share_reached", "replicates", "seed", "goal_first", "goal_last"),
)
RULES = ("first", "interpolated")  # as in data_efficiency and in data_efficiency_interpolated
BASELINE = "LA"
ERROR = 0.05
# Of the error probabilities of goals (see the module's text): the largest MOST_DOUBT in quarters with which no design
# of eight checkpoints or more in benchmarks/coverage.py --set calibration misses more than twice as often as it should.
MOST_DOUBT = 2.25
SHARPNESS = 2
FEWEST_FOR_NOISE = 2 * PARAMETERS  # checkpoints: the scatter of fewer around a curve says too little of its own size
TIE = 4e-15  # as in reaches.sql: sums in another order are still ties


@dataclass(frozen=True)
class Goals:
    """The checkpoints that may be a baseline's best: tokens [G] ascending, accuracy [1 + R, G], and what probability
    the interval of each may have to miss [G]."""

    tokens: np.ndarray
    accuracy: np.ndarray
    error: np.ndarray


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
    points = observed_points(connection, study_id)
    curves = {
        model: with_training_noise(curve, points[model], generator(seed, "noise of training", *map(str, model)))
        for model, curve in replicate_curves(connection, study_id, replicates, seed).items()
    }
    goals = {model: possible_goals(curve) for model, curve in curves.items() if model[1] == BASELINE}
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


def with_training_noise(curve: Curve, points: Points, random: np.random.Generator) -> Curve:
    """The curve, its replicates with independent noise at every checkpoint as large as that of training."""
    if len(curve.tokens) < FEWEST_FOR_NOISE:
        return curve
    spread = training_variance(points, fit_curve(points), curve.accuracy) ** 0.5
    accuracy = curve.accuracy.copy()
    accuracy[1:] += random.normal(0, spread, accuracy[1:].shape)
    return Curve(curve.tokens, accuracy)


def possible_goals(baseline: Curve) -> Goals:
    """The checkpoints that may be the baseline's best, the first best observed among them.

    A checkpoint that truly is the best lies below the best observed by no more than the largest error of all
    checkpoints minus its own. How often the draws' errors do that is how plausible it is: 1 for the best observed.
    """
    # Of equal ones the first is the goal, as in the views: what equals an earlier one in every draw is no other goal.
    _, distinct = np.unique(baseline.accuracy, axis=1, return_index=True)
    tokens, accuracy = (values[..., np.sort(distinct)] for values in (baseline.tokens, baseline.accuracy))
    observed, errors = accuracy[0], accuracy[1:] - accuracy[0]
    behind = errors.max(axis=1, keepdims=True) - errors
    plausible = reaches(observed + behind, observed.max()).mean(axis=0)
    possible = plausible > 0
    error = ERROR * min(plausible.sum(), MOST_DOUBT) / plausible[possible] ** SHARPNESS
    kept = np.flatnonzero(possible)[error < 1]
    return Goals(tokens[kept], accuracy[:, kept], error[error < 1])


def factor_interval(goals: Goals, variant: Curve, *, interpolated: bool) -> tuple[float, float, float]:
    """Low and high end over all possible goals, and the share of replicates in which the variant reaches the goal.

    The goal of that share is the best of the possible goals in the replicate.
    """
    drawn = Curve(variant.tokens, variant.accuracy[1:])
    ends = [
        interval(crossing_factors(tokens, accuracy[1:], drawn, interpolated=interpolated), error)
        for tokens, accuracy, error in zip(goals.tokens, goals.accuracy.T, goals.error, strict=True)
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


def interval(factors: Factors, error: float) -> tuple[float, float]:
    """Low and high end of the interval that misses with this probability; 0 and infinity where it is open."""
    low = _quantile(np.where(factors.at_most, 0.0, factors.value), error / 2)
    high = -_quantile(-np.where(factors.at_least, np.inf, factors.value), error / 2)
    return low, high


def _quantile(values: np.ndarray, share: float) -> float:
    """The lowest value that, with half of those equal to it, has at least this share (up to a half) at or below it."""
    distinct, counts = np.unique(values, return_counts=True)
    return float(distinct[np.argmax(counts.cumsum() - counts / 2 >= share * len(values))])
