"""Seeds are added at fixed looks, whose intervals together leave out the truth as rarely as one of
95 %."""

from __future__ import annotations

import numpy as np
import pytest

from dreamer_study.sql.statistics.errors import Errors
from dreamer_study.sql.statistics.sequential import LOOKS, NOMINAL, looks_until


def test_the_looks_follow_each_other_to_the_most_that_is_allowed() -> None:
    assert [looks_until(most) for most in (24, 16, 12)] == [[4, 8, 16, 24], [4, 8, 16], [4, 8, 12]]


def test_any_of_the_looks_leaves_out_the_truth_in_five_percent() -> None:
    # Known errors: the sharpest case, as estimated ones have the t quantile's own margin.
    means = np.random.default_rng(0).standard_normal((200_000, LOOKS[-1])).cumsum(axis=1)
    halves = Errors(1 / np.sqrt(LOOKS), np.full(len(LOOKS), np.inf), NOMINAL).half()
    missed = np.abs(means[:, np.array(LOOKS) - 1] / LOOKS) > halves
    assert missed.any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
