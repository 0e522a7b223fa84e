"""Counts of many items at once find what the sets themselves would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.worlds.crowd import COVERAGE, Items

GRAMS = st.frozensets(st.tuples(st.integers(0, 12), st.integers(0, 3)), min_size=1, max_size=40)


@given(st.lists(GRAMS, min_size=1, max_size=20), GRAMS)
def test_a_text_covers_an_item_of_which_it_holds_enough(items: list[frozenset], held: frozenset) -> None:
    assert Items(items).covered_by(held) == any(len(item & held) >= COVERAGE * len(item) for item in items)
