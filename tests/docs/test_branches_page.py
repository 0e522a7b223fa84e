"""The page on branches judges by the rules of its protocol."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pytest

from tests.docs.scripts import RESULTS, script

FOLDER = RESULTS / "branches"
PAGE = script("branches/page.py")
Ends = tuple[float, float, float]  # ratio, low, high


def rows(by_weights: Mapping[str, Mapping[str, Ends]]) -> pd.DataFrame:
    """The primary rows, by weights and variant, and a row that does not count."""
    primary = [
        {"variant": variant, "weights": weights, "task": "average", "metric": "accuracy"}
        | dict(zip(("ratio", "low", "high"), ends, strict=True))
        for weights, variants in by_weights.items()
        for variant, ends in variants.items()
    ]
    other = {"variant": "DR", "weights": "raw", "task": "validation", "metric": "loss"}
    return pd.DataFrame([*primary, other | {"ratio": 0.1, "low": 0.1, "high": 0.1}])


DR, DA = (1.6, 1.2, 2.1), (1.4, 1.1, 1.8)
USUAL = {"DR": DR, "DR+DA": DA}
BETTER = (0.7, 0.5, 0.9)


@pytest.mark.parametrize(
    ("raw", "sentences"),
    [
        (USUAL, ["The order is the same: LA, DR+DA, DR."]),
        ({"DR": DA, "DR+DA": DR}, ["The order cannot be distinguished."]),
        (
            {"DR": BETTER, "DR+DA": DA},
            [
                "The order differs: DR lies on either side of 1.",
                "averaged and raw give different ratios of DR.",
                "raw and branches give different ratios of DR.",
            ],
        ),
    ],
)
def test_orders_and_ratios_by_three_kinds_of_weights(
    raw: Mapping[str, Ends], sentences: list[str]
) -> None:
    assert PAGE.verdicts(rows({"averaged": USUAL, "raw": raw, "branches": USUAL})) == sentences


def test_the_page_shows_its_rows() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert PAGE.with_tables(text, FOLDER) == text
    (sentence,) = PAGE.verdicts(pd.read_csv(FOLDER / "ratios.csv"))
    assert sentence == "The order is the same: LA, DR+DA, DR."
