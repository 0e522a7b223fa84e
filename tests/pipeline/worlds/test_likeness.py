"""Sketches and counts of many items at once rule out nothing that the sets themselves would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.worlds.crowd import COVERAGE, Items
from pipeline.worlds.likeness import Sketch, jaccard

GRAMS = st.frozensets(st.tuples(st.integers(0, 12), st.integers(0, 3)), min_size=1, max_size=40)


@given(GRAMS, GRAMS)
def test_sketches_never_rule_out_the_similarity_of_the_sets(first: frozenset, second: frozenset) -> None:
    assert Sketch.of(first).may_reach(jaccard(first, second), Sketch.of(second))


def test_sketches_rule_out_sets_that_have_little_in_common() -> None:
    first, second = (frozenset(range(start, start + 20)) for start in (0, 10))
    assert not Sketch.of(first).may_reach(0.7, Sketch.of(second))


@given(st.lists(GRAMS, min_size=1, max_size=20), GRAMS)
def test_a_text_covers_an_item_of_which_it_holds_enough(items: list[frozenset], held: frozenset) -> None:
    assert Items(items).covered_by(held) == any(len(item & held) >= COVERAGE * len(item) for item in items)
