"""Numbers as a reader writes them: ratios, durations, counts, lists."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.reports.text.numbers import (
    counted,
    duration,
    figure,
    flops,
    interval,
    percent,
    ratio,
    some,
    span,
    times,
    tokens,
)


@pytest.mark.parametrize("count", range(1, 15))
def test_a_list_of_some_counts_everything(count: int) -> None:
    names = [f"name-{number}" for number in range(count)]
    text = some(names)
    named = text.count("name-")
    further = re.search(r"and (\d+) more$", text)
    assert named + (int(further[1]) if further else 0) == count
    assert named == count or int(further[1]) > 1


@pytest.mark.parametrize(
    ("first", "last", "metric", "text"),
    [
        (0.46, 0.53, "accuracy", "46 to 53 %"),
        (0.461, 0.464, "accuracy", "46.1 to 46.4 %"),
        (0.5, 0.5, "accuracy", "50 %"),
        (0.7475, 0.7475, "accuracy", "74.8 %"),
        (1.834, 1.62, "loss", "1.83 to 1.62"),
        (3.2801, 3.2786, "loss", "3.280 to 3.279"),
        (3.28, 3.28, "loss", "3.28"),
    ],
)
def test_scores_have_the_decimals_that_tell_them_apart(
    first: float, last: float, metric: str, text: str
) -> None:
    assert span(first, last, metric) == text


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
    assert [show(None) for show in (tokens, percent, ratio, times, duration)] == ["–"] * 5


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.4, "0.40"), (1, "1.00"), (0.0625, "0.062"), (20, "20.0"), (0, "0"), (math.inf, "∞")],
)
def test_a_ratio_has_the_decimals_that_matter(value: float, text: str) -> None:
    assert ratio(value) == text
    assert times(value) == f"{text}x"


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


def test_an_interval_may_lack_an_end() -> None:
    assert interval({"low": 0.8, "high": 2}) == "0.80 to 2.00"
    assert interval({"low": None, "high": 3}) == "at most 3.00"
    assert interval({"low": 0.5, "high": math.nan}) == "at least 0.50"
    assert interval({"low": None, "high": None}) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2400.4, "2,400"),
        (2.4e3, "2,400"),
        (999.6, "1,000"),
        (13_512_345_678.0, "13,500,000,000"),
        (12.34, "12.3"),
        (1.0, "1"),
        (0.00012345, "0.000123"),
        (-0.5, "-0.5"),
        (0.0, "0"),
        (float("nan"), "–"),
    ],
)
def test_a_figure_has_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.28e21, "1.28e21"),
        (2.4345e12, "2.43e12"),
        (4.5e6, "4.5e6"),
        (999_500, "1e6"),
        (999_499, "999,000"),
        (449_280, "449,000"),
        (512, "512"),
        (float("nan"), "–"),
    ],
)
def test_only_large_numbers_of_flops_have_an_exponent(value: float, text: str) -> None:
    assert flops(value) == text


def test_one_of_a_thing_is_singular() -> None:
    assert [counted(count, "document") for count in (0, 1, 2, 1500)] == [
        "0 documents",
        "1 document",
        "2 documents",
        "1,500 documents",
    ]
    assert counted(2, "study", "studies") == "2 studies"
