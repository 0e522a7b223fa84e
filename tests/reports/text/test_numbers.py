"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.text.numbers import duration, factor, fine_interval, listed, percent, tokens


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (512, "512"),
        (999, "999"),
        (1000, "1K"),
        (1_430_000, "1.43M"),
        (999_700, "1M"),
        (25e9, "25B"),
        (3e16, "30,000T"),
    ],
)
def test_token_counts_are_short(count: float, text: str) -> None:
    assert tokens(count) == text


@given(st.integers(1, 10**14))
def test_token_counts_keep_three_digits(count: int) -> None:
    text = tokens(count)
    sizes = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
    value = float(text.rstrip("KMBT").replace(",", "")) * sizes.get(text[-1], 1)
    assert math.isclose(value, count, rel_tol=0.0051)


def test_nothing_is_a_dash() -> None:
    assert [show(None) for show in (tokens, percent, factor, duration)] == ["–"] * 4
    assert factor(float("nan")) == "–"


@pytest.mark.parametrize(
    ("value", "text"), [(2.44, "2.4"), (1, "1.0"), (0.999, "1.0"), (0.917, "0.92"), (12.34, "12.3"), (math.inf, "∞")]
)
def test_factors_have_the_decimals_that_matter(value: float, text: str) -> None:
    assert factor(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4, "4\u202fs"),
        (0.26, "under 1\u202fs"),
        (600, "10.0\u202fmin"),
        (9000, "2.5\u202fh"),
        (259200, "3.0\u202fdays"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("low", "high", "text", "inverted"),
    [(0.5, 1.25, "0.50 to 1.25", "0.80 to 2.00"), (8, 12.5, "8.00 to 12.5", "0.08 to 0.12"), (None, 3, "", "")],
)
def test_an_interval_has_two_decimals_and_its_ends_change_places_in_the_inverse(
    low: float | None, high: float, text: str, inverted: str
) -> None:
    row = {"low": low, "high": high}
    assert (fine_interval(row), fine_interval(row, inverted=True)) == (text, inverted)


def test_lists() -> None:
    assert [listed(["a", "b", "c"][:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
