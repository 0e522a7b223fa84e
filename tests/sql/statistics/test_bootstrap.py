"""Drawing items anew: the means of a draw."""

from __future__ import annotations

import numpy as np
import pytest

from sql.statistics.bootstrap import resample


def test_resampled_means_are_those_of_drawn_items():
    scores = np.random.default_rng(0).random((7, 3))
    means = resample(scores, 50, np.random.default_rng(1))
    counts = np.random.default_rng(1).multinomial(7, np.full(7, 1 / 7), size=50)
    drawn = [np.mean([row for row, n in zip(scores, times, strict=True) for _ in range(n)], axis=0) for times in counts]
    np.testing.assert_allclose(means, drawn)


def test_resampled_means_have_the_standard_error_of_the_mean():
    scores = np.random.default_rng(0).random((400, 1)) < 0.3
    means = resample(scores.astype(float), 4000, np.random.default_rng(1))
    assert means.mean() == pytest.approx(scores.mean(), abs=0.002)
    assert means.std() == pytest.approx(scores.std() / 20, rel=0.05)


def test_blocks_of_replicates_fit_together(monkeypatch):
    monkeypatch.setattr("sql.statistics.bootstrap.COUNTS_IN_MEMORY", 30)
    scores = np.random.default_rng(0).random((10, 2))
    means = resample(scores, 101, np.random.default_rng(1))
    assert means.shape == (101, 2)
    assert means.std(axis=0).min() > 0
    assert len(np.unique(means[:, 0])) == 101
