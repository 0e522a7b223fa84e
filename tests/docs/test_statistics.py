"""The worked examples of docs/statistics.md are what the code computes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dreamer_study.sql.statistics.curves import SeedCurves
from dreamer_study.sql.statistics.pairs import Comparison, compare_models

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")


def numbers(row: str) -> list[float]:
    return [float(cell) for cell in row.strip("| ").split("|")[1:]]


@pytest.fixture(scope="module")
def example() -> Comparison:
    """Compare the curves of the page's table."""
    table = r"^(\| tokens.*)\n\|---.*\n(\| LA.*)\n(\| DR.*)$"
    ((tokens, la, dr),) = re.findall(table, PAGE, re.MULTILINE)
    log_tokens = np.log(numbers(tokens))
    curves = [SeedCurves(log_tokens, np.array([numbers(row)]), None) for row in (la, dr)]
    return compare_models(*curves)


def said(pattern: str) -> list[float]:
    """Return the numbers of the one place where the page has a pattern; blanks match any space."""
    (found,) = re.findall(pattern.replace(" ", r"\s+"), PAGE)
    return [float(number) for number in ([found] if isinstance(found, str) else found)]


def test_the_example_has_the_ratio_that_the_page_says(example: Comparison) -> None:
    doublings, ratio = said(r"the ratio is 2 \^ (-[\d.]+) = (\d\.\d+)")
    assert example.ratio == pytest.approx(2**doublings, rel=1e-3)
    assert round(example.ratio, 2) == ratio
    low, high = said(r"its upper fifth is (0\.4\d+) to (\d\.\d+)")
    assert [round(example.score_low, 3), round(example.score_high, 3)] == [low, high]


def test_the_steps_of_the_example_give_its_ratio(example: Comparison) -> None:
    line = r"^    {} +\(([\d.]+) \* ([\d.]+) \+ ([\d.]+) \* ([\d.]+)\) / ([\d.]+) = ([\d.]+)"
    doublings = {}
    for model in ("LA", "DR"):
        (found,) = re.findall(line.format(model), PAGE, re.MULTILINE)
        rise, middle, other_rise, other_middle, whole, mean = map(float, found)
        assert rise + other_rise == pytest.approx(whole)
        assert (rise * middle + other_rise * other_middle) / whole == pytest.approx(mean, abs=1e-3)
        doublings[model] = mean
    assert np.log2(example.ratio) == pytest.approx(doublings["DR"] - doublings["LA"], abs=1e-3)


def test_the_example_has_the_bound_that_the_page_says(example: Comparison) -> None:
    doublings, at_least = said(r"at least 2 \^ ([\d.]+) = ([\d.]+)")
    assert example.at_least == pytest.approx(2**doublings, rel=1e-3)
    assert round(example.at_least, 2) == at_least
    assert example.reached is False


def test_the_example_has_the_mean_that_the_page_says(example: Comparison) -> None:
    low, high, mean = said(
        r"all scores that both curves cover \(([\d.]+) to ([\d.]+)\) is (\d\.\d+)"
    )
    assert (example.range_low, example.range_high) == (low, high)
    assert round(1 / example.mean_factor, 2) == mean


def test_the_example_of_an_interval_has_the_ends_that_the_page_says() -> None:
    *logarithms, mean, error, t, ratio, low, high = said(
        r"log ratios are ([\d.]+), ([\d.]+) and ([\d.]+)\. Their mean is ([\d.]+), its standard error"
        r" ([\d.]+), the t quantile of two degrees of freedom is ([\d.]+): the ratio is ([\d.]+),"
        r" the interval ([\d.]+) to (\d\.\d+)"
    )
    log_tokens = np.log(10 * 2.0 ** np.arange(8))
    line = 0.1 * np.arange(1, 9)
    a_unit = 0.1 / np.log(2)  # of log tokens, in score
    seeds = np.array([line - a_unit * logarithm for logarithm in logarithms])
    baseline = SeedCurves(log_tokens, np.array([line] * 3), None)
    found = compare_models(baseline, SeedCurves(log_tokens, seeds, None))
    assert [round(number, 2) for number in (found.ratio, found.low, found.high)] == [
        ratio,
        low,
        high,
    ]
    assert [round(np.mean(logarithms), 2), round(found.seed_error, 3)] == [mean, error]
    assert np.log(found.high / found.ratio) / found.seed_error == pytest.approx(t, abs=0.01)
