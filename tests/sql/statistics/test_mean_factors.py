"""Mean factors over all that two curves cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.sql.statistics.curves import SeedCurves
from dreamer_study.sql.statistics.pairs import Comparison, compare_models

LA = {10: 0.1, 20: 0.3, 40: 0.5, 80: 0.6}
DR = {10: 0.2, 20: 0.5, 40: 0.6, 80: 0.7}
# Both cover 0.2 to 0.6. Doublings of 10 tokens, averaged over that range: LA (0.1 * 0.75 + 0.2 *
# 1.5 + 0.1 * 2.5) / 0.4 = 1.5625, DR (0.3 * 0.5 + 0.1 * 1.5) / 0.4 = 0.75.
FACTOR = 2 ** (1.5625 - 0.75)


def compared(baseline: dict[int, float], variant: dict[int, float]) -> Comparison:
    """Compare curves of one seed, given as scores by tokens."""
    both = (
        SeedCurves(np.log(list(curve)), np.array([list(curve.values())]), None)
        for curve in (baseline, variant)
    )
    return compare_models(*both)


def test_the_mean_factor_is_over_all_that_both_curves_cover() -> None:
    found = compared(LA, DR)
    assert found.mean_factor == pytest.approx(FACTOR)
    assert (found.range_low, found.range_high) == (0.2, 0.6)


def test_a_dip_is_not_unlearning() -> None:
    # LA stays at 0.3 until 30 tokens; DR needs from 15 to 20 tokens for the rise from 0.2 to 0.5.
    la = (0.1 * 0.75 + 0.2 * (math.log2(3) + 2) / 2 + 0.1 * 2.5) / 0.4
    dr = (0.3 * (math.log2(1.5) + 1) / 2 + 0.1 * 1.5) / 0.4
    with_dips = [dict(sorted((LA | {30: 0.2}).items())), dict(sorted((DR | {15: 0.0}).items()))]
    assert compared(*with_dips).mean_factor == pytest.approx(2 ** (la - dr))


@pytest.mark.parametrize(
    ("baseline", "variant"),
    [
        pytest.param({10: 0.1, 20: 0.2}, {10: 0.3, 20: 0.4}, id="starts above the best"),
        pytest.param({10: 0.3, 20: 0.3}, {10: 0.2, 20: 0.4}, id="a flat baseline"),
        pytest.param({10: 0.1, 20: 0.1 + 0.2}, {10: 0.3, 20: 0.5}, id="a tie up to rounding"),
    ],
)
def test_without_a_common_range_there_is_no_mean(
    baseline: dict[int, float], variant: dict[int, float]
) -> None:
    found = compared(baseline, variant)
    assert (found.mean_factor, found.range_low, found.ratio) == (None, None, None)


curves = st.lists(st.integers(0, 20), min_size=2, max_size=6)


@pytest.mark.slow
@given(curves, curves, st.integers(2, 9))
def test_scaling_the_tokens_of_a_variant_divides_its_factor(
    baseline: list, variant: list, scale: int
) -> None:
    la = {100 * 2**n: value / 20 for n, value in enumerate(baseline)}
    dr = {100 * 2**n: value / 20 for n, value in enumerate(variant)}
    before = compared(la, dr)
    after = compared(la, {tokens * scale: score for tokens, score in dr.items()})
    expected = before.mean_factor and pytest.approx(before.mean_factor / scale)
    assert after.mean_factor == expected
