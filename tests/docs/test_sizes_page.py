"""The page on the answer by size judges by the rules of its protocol."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest

from tests.docs.scripts import RESULTS, script

FOLDER = RESULTS / "sizes"
PAGE = script("sizes/page.py")


@pytest.mark.parametrize(
    ("low", "high", "p_of_line", "begins"),
    [
        (1.1, 3.0, 0.5, "DR's ratio grows with width"),
        (0.2, 0.9, 0.5, "DR's ratio falls with width"),
        (0.5, 2.0, 0.5, "A change with width cannot be told"),
        (1.1, 3.0, 0.04, "No slope is concluded"),
    ],
)
def test_the_slope_of_the_searched_rates_decides(
    low: float, high: float, p_of_line: float, begins: str
) -> None:
    primary = {"rates": PAGE.SEARCHED, "task": "average", "metric": "accuracy"}
    ends = {"per_tenfold": 1.0, "per_tenfold_low": low, "per_tenfold_high": high}
    decides = {**primary, **ends, "p_of_line": p_of_line}
    others = [
        decides | {change: value, "per_tenfold_low": 5.0, "p_of_line": 0.9}
        for change, value in (("rates", PAGE.CARRIED), ("task", "validation"), ("metric", "loss"))
    ]
    assert PAGE.of_trend(pd.DataFrame([*others, decides])).startswith(begins)


Ends = tuple[float, float]
SAME: tuple[Ends, Ends] = ((0.8, 1.6), (0.9, 1.7))
APART: tuple[Ends, Ends] = ((0.8, 1.2), (1.3, 1.7))


def carrying(
    at_128: tuple[Ends, Ends] = SAME,
    rate_at_128: float = 2e-3,
    differences: Sequence[tuple[float, float]] = ((-0.01, 0.8),),
) -> str:
    """Judge; the differences are of carried and searched rates, with their corrected p."""
    rows = [
        {"size": width, "rates": rates, "task": "average", "metric": "accuracy"}
        | dict(zip(("low", "high"), ends, strict=True))
        for width, pair in ((64, APART), (96, SAME), (128, at_128))
        for rates, ends in zip((PAGE.SEARCHED, PAGE.CARRIED), pair, strict=True)
    ]
    settings = pd.DataFrame(
        {"rates": PAGE.SEARCHED, "learning_rate": [PAGE.CARRIED_RATE, rate_at_128]}
    )
    tested = pd.DataFrame(differences, columns=["difference", "adjusted_p"])
    return PAGE.of_carrying(pd.DataFrame(rows), settings, tested)


def test_rates_carry_where_the_search_chooses_them_or_nothing_differs() -> None:
    assert carrying(rate_at_128=PAGE.CARRIED_RATE, at_128=APART).startswith("The rates carry: the")
    assert carrying().startswith("The rates carry: no ratio")


def test_rates_do_not_carry_where_an_accuracy_is_lower() -> None:
    assert carrying(differences=[(0.1, 0.5), (-0.1, 0.04)]).startswith("The rates do not carry")


def test_another_difference_leaves_it_open() -> None:
    open_still = "Whether the rates carry is open."
    assert carrying(at_128=APART) == open_still
    assert carrying(differences=[(0.1, 0.04)]) == open_still
    assert carrying(at_128=((0.8, float("nan")), (0.9, 1.7))) == open_still, "a bound"


def test_the_page_shows_its_rows_and_their_verdicts() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert PAGE.with_tables(text, FOLDER) == text
    rows = {name: pd.read_csv(FOLDER / name) for name in PAGE.FILES}
    assert PAGE.of_trend(rows["trends.csv"]).startswith("A change with width cannot be told: 0.61")
    judged = [rows[f"{name}.csv"] for name in ("ratios", "settings", "differences")]
    assert PAGE.of_carrying(*judged).startswith("The rates carry: no ratio")
