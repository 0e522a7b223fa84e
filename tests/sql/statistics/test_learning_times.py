"""Learning times of items: planted times are found, and what the checkpoints cannot say is left
open."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from benchmarks.intervals.learning_times import Cell, simulate
from dreamer_study.sql.statistics.learning_times import LearningTimes, fit_times

LOG_TOKENS = np.log(np.arange(1, 13) * 1e5)
SEEDS = 4


def fitted(share: np.ndarray, guess: float = 0.0, **options: str) -> LearningTimes:
    """Fit items whose share of right answers at each checkpoint is exact."""
    asked = np.full(share.shape, SEEDS)
    return fit_times(LOG_TOKENS, SEEDS * share, asked, guess, **options)


@pytest.mark.parametrize("by", ["profile", "posterior"])
@pytest.mark.parametrize("guess", [0.0, 0.25, 0.5])
def test_a_planted_time_is_found_between_the_ends_of_its_interval(guess: float, by: str) -> None:
    planted = np.log([2e5, 4e5, 8e5])
    known = expit(4 * (LOG_TOKENS - planted[:, None]))
    times = fitted(guess + (1 - guess) * known, guess, by=by)
    assert times.estimate == pytest.approx(planted, abs=0.3)
    assert (times.low < planted).all()
    assert (planted < times.high).all()


@pytest.mark.parametrize("by", ["profile", "posterior"])
def test_an_item_that_was_never_right_or_always_has_no_time(by: str) -> None:
    share = np.vstack([np.zeros(12), np.ones(12)])
    times = fitted(share, 0.1, by=by)
    assert times.never_learned.tolist() == [True, False]
    assert times.known_at_first.tolist() == [False, True]
    assert times.high[0] == np.inf  # open behind the last checkpoint
    assert times.low[1] == -np.inf  # and before the first one
    assert LOG_TOKENS[0] < times.low[0]
    assert times.high[1] < LOG_TOKENS[-1]


def test_more_seeds_make_intervals_narrower() -> None:
    known = expit(4 * (LOG_TOKENS - np.log(4e5)))[None]
    widths = []
    for seeds in (1, 4, 16):
        times = fit_times(LOG_TOKENS, seeds * known, np.full(known.shape, seeds), 0.0)
        widths.append(times.high[0] - times.low[0])
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 2


def test_the_order_of_checkpoints_and_items_that_were_not_asked_change_nothing() -> None:
    random = np.random.default_rng(0)
    right = random.integers(0, SEEDS + 1, (20, 12)).astype(float)
    asked = np.full(right.shape, SEEDS)
    in_order = fit_times(LOG_TOKENS, right, asked, 0.1)
    shuffled = random.permutation(12)
    again = fit_times(LOG_TOKENS[shuffled], right[:, shuffled], asked, 0.1)
    assert again.estimate == pytest.approx(in_order.estimate)
    # a checkpoint that asked nothing, within the others
    more_tokens = np.append(LOG_TOKENS, LOG_TOKENS[3])
    padded = np.pad(right, ((0, 0), (0, 1)))
    with_empty = fit_times(more_tokens, padded, np.pad(asked, ((0, 0), (0, 1))), 0.1)
    assert with_empty.estimate == pytest.approx(in_order.estimate)


def test_no_items_have_no_times() -> None:
    times = fit_times(LOG_TOKENS, np.empty((0, 12)), np.empty((0, 12)), 0.0)
    assert len(times.estimate) == 0


def test_intervals_hold_about_nine_of_ten_true_times() -> None:
    cell = Cell("as assumed", seeds=4, checkpoints=12, spaced="even", guess=0.25, slope=3.0)
    counted = simulate(cell, 1000, np.random.default_rng(7)).set_index("method")
    assert (counted["holds"] > 0.86).all()
    assert (counted["holds"] < 0.97).all()


@pytest.mark.parametrize("items", [1, 499, 500, 501, 1203])
def test_the_number_of_items_at_once_changes_nothing(items: int) -> None:
    right = np.random.default_rng(1).integers(0, SEEDS + 1, (1203, 12)).astype(float)
    asked = np.full(right.shape, SEEDS)
    whole = fit_times(LOG_TOKENS, right, asked, 0.1).estimate
    assert fit_times(LOG_TOKENS, right[:items], asked[:items], 0.1).estimate == pytest.approx(
        whole[:items]
    )
