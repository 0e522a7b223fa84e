"""Handle curves of scores against tokens: best so far, straight in log tokens between checkpoints.

A score is more for better: an accuracy, or minus a loss. Letters of shapes: N seeds, C checkpoints,
R replicates (resampled curves, or the one curve as observed), G goals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dreamer_study.sql.statistics.bootstrap import Checkpoint, Points

# Relative to a score, as in internal/macros/reaches.sql: sums over seeds or tasks in another order
# differ by so much and are still ties. Far less than one item.
TIE = 4e-15
TENTH = np.log(10)  # a tenth of the tokens is so far below, in log tokens


@dataclass(frozen=True)
class SeedCurves:
    """A model's curves: ascending log tokens [C] and the scores of its seeds [N, C].

    `drawn` [1 + R, C] is the mean over the seeds: in row 0 with the items as they are, in rows 1 to
    R with items drawn anew. Row r of every model has the same draw, which pairs the models. None
    where scores of items are missing. `noise_floor` is the score that guessing may reach, chance
    and two standard errors; minus infinity where there is no chance, as for losses.
    """

    log_tokens: np.ndarray
    scores: np.ndarray
    drawn: np.ndarray | None
    noise_floor: float = -np.inf

    @cached_property
    def mean(self) -> Curves:
        """Return the mean curve, one row."""
        return self._curves(self.scores.mean(axis=0, keepdims=True))

    @cached_property
    def without_one_seed(self) -> Curves:
        """Return the mean curves that leave one seed out, N rows; of two seeds or more."""
        return self._curves(
            (self.scores.sum(axis=0) - self.scores) / (len(self.scores) - 1),
        )

    @cached_property
    def mean_and_without_one_seed(self) -> Curves:
        """Return the mean curve in row 0, and those that leave seed n out in rows n, 1 + N rows."""
        rows = np.vstack([self.mean.best, self.without_one_seed.best])
        return Curves(self.log_tokens, rows, self.noise_floor)

    @cached_property
    def with_other_items(self) -> Curves:
        """Return the mean curve as it would be with the items of each replicate, R rows.

        Only the movement of the means over items counts: a mean over items need not be the score,
        as that of `validation` is total bits over total bytes.
        """
        assert self.drawn is not None
        return self._curves(self.scores.mean(axis=0) + self.drawn[1:] - self.drawn[0])

    def _curves(self, scores: np.ndarray) -> Curves:
        return Curves(self.log_tokens, np.maximum.accumulate(scores, axis=1), self.noise_floor)


@dataclass(frozen=True)
class Curves:
    """Curves of one model that never fall: log tokens [C], and the best scores so far [R, C]."""

    log_tokens: np.ndarray
    best: np.ndarray
    noise_floor: float

    @property
    def start(self) -> np.ndarray:
        """Return the scores at the first checkpoint [R]."""
        return self.best[:, 0]

    @property
    def end(self) -> np.ndarray:
        """Return the best scores of all [R]."""
        return self.best[:, -1]

    def of_rows(self, rows: Sequence[int]) -> Curves:
        """Return the curves of some rows, in this order; a row may be there several times."""
        return Curves(self.log_tokens, self.best[rows], self.noise_floor)

    @cached_property
    def score_at_a_tenth(self) -> np.ndarray:
        """Return the scores that the curves had at a tenth of the tokens to their best [R]."""
        reached = self.crossings(self.end[:, None])[:, 0]
        return self.scores_at(reached - TENTH)

    def continued(self) -> Curves:
        """Continue the curves straight up at the last token.

        What was never reached counts as if reached with the last token. The last segment has a rise
        of infinity and no tokens: in `mean_log_tokens` its middle is the last token, in
        `crossings` the share of the way up it is 0, which is the last token too.
        """
        tokens = np.append(self.log_tokens, self.log_tokens[-1])  # [C + 1]
        raised = np.pad(self.best, ((0, 0), (0, 1)), constant_values=np.inf)  # [R, C + 1]
        return Curves(tokens, raised, self.noise_floor)

    def crossings(self, goals: np.ndarray) -> np.ndarray:
        """Find the log tokens at which the curves first rise to goals [R, G]: [R, G].

        A goal at or below the start has the first checkpoint's tokens. The curves reach their
        goals: what lies beyond is extrapolated, and means nothing. NaN for a goal of NaN.
        """
        if len(self.log_tokens) == 1:  # which has no segment
            return np.where(np.isnan(goals), np.nan, self.log_tokens[0])
        rows = np.broadcast_to(self.best, (len(goals), self.best.shape[1]))
        # The first point at or above each goal, which is the number of points below the goal, as a
        # curve never falls; a sum over columns needs no array [R, G, C]. By the clip a goal at the
        # start belongs to the first segment, and one beyond the end to the last.
        if len(self.best) == 1:  # of thousands of points, as dense losses have
            found = np.searchsorted(self.best[0], goals)
            points_below = np.where(np.isnan(goals), 0, found)
        else:
            points_below = sum(scores[:, None] < goals for scores in rows.T)  # [R, G]
        after = np.asarray(points_below).clip(1, rows.shape[1] - 1)
        low = np.take_along_axis(rows, after - 1, axis=1)
        high = np.take_along_axis(rows, after, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(high > low, (np.maximum(goals, low) - low) / (high - low), 0)
        return self.log_tokens[after - 1] + share * np.diff(self.log_tokens)[after - 1]

    def scores_at(self, log_tokens: np.ndarray) -> np.ndarray:
        """Read the score of each curve at log tokens [R]: [R]; the start before the first point."""
        if len(self.log_tokens) == 1:
            return np.broadcast_to(self.start, len(log_tokens))
        after = np.searchsorted(self.log_tokens, log_tokens).clip(1, len(self.log_tokens) - 1)
        rows = np.arange(len(log_tokens))
        best = np.broadcast_to(self.best, (len(log_tokens), self.best.shape[1]))
        low = best[rows, after - 1]
        high = best[rows, after]
        width = self.log_tokens[after] - self.log_tokens[after - 1]
        share = ((log_tokens - self.log_tokens[after - 1]) / width).clip(0, 1)
        return low + share * (high - low)

    def mean_log_tokens(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Average the log tokens at which the curves rise to scores from low [R] to high [R]: [R].

        1 / (high - low) * integral of log t(s) ds from low to high

        by trapezoids on their side: each segment counts with what of its rise lies in the range, at
        the log tokens of the middle of that part. That is exact, as segments are straight in log
        tokens.
        """
        start = self.best[:, :-1]  # of each segment [R, C - 1]
        end = self.best[:, 1:]
        below = np.clip(start, low[:, None], high[:, None])
        above = np.clip(end, low[:, None], high[:, None])
        rise = np.where(end > start, end - start, 1)  # a segment that does not rise adds nothing
        share = ((below + above) / 2 - start) / rise
        middle = self.log_tokens[:-1] + np.diff(self.log_tokens) * share
        return ((above - below) * middle).sum(axis=1) / (high - low)


def ends_of(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of ranges [R], NaN where these are empty, rounding aside."""
    # Not `low >= ...`: a comparison with NaN is False, and ranges with NaN count as empty.
    empty = ~(low < high - TIE * np.abs(high))
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def seed_curves(
    points: Points,
    drawn: Mapping[Checkpoint, np.ndarray],
    *,
    lower_is_better: bool,
    noise_floor: float = -np.inf,
) -> SeedCurves:
    """Gather the curves of a model's seeds from the points of `read_points`.

    `drawn` has the means over drawn items [1 + R] at each checkpoint.
    """
    direction = -1 if lower_is_better else 1
    # Row n of the transposed array is the same seed at every point (see `Points`).
    scores = direction * np.array([list(seeds.values()) for seeds in points.values()]).T
    means = None
    if all(checkpoint in drawn for seeds in points.values() for checkpoint in seeds):
        mean_at_points = [
            np.mean([drawn[checkpoint] for checkpoint in seeds], axis=0)
            for seeds in points.values()
        ]
        means = direction * np.stack(mean_at_points, axis=1)
    return SeedCurves(np.log(list(points)), scores, means, noise_floor)
