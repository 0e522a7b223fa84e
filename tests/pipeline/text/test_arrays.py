"""Sets in flat arrays and tables of ids: equal to Python's sets and dictionaries."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.arrays import IdTable, distinct, jaccard


def test_jaccard_of_many_pairs_equals_sets() -> None:
    draw = random.Random(0)
    sets = [
        [draw.randrange(1 << 64) if draw.random() < 0.2 else draw.randrange(40) << 20 for _ in range(n % 37)]
        for n in range(300)
    ]
    values = np.array([value for members in sets for value in members], np.uint64)
    offsets = np.concatenate([[0], np.cumsum([len(members) for members in sets])])
    values, offsets = distinct(values, offsets)
    left, right = (np.array([draw.randrange(300) for _ in range(9000)]) for _ in range(2))
    expected = [
        len(set(sets[a]) & set(sets[b])) / max(len(set(sets[a]) | set(sets[b])), 1)
        for a, b in zip(left, right, strict=True)
    ]
    assert jaccard(values, offsets, left, right).tolist() == expected


@given(
    st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 50)), st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 50))
)
def test_a_table_finds_what_is_in_the_table(table: set[int], ids: list[int]) -> None:
    ids += sorted(table)
    at, places = IdTable(np.array(sorted(table), np.uint64)).find(np.array(ids, np.uint64))
    expected = [(i, sorted(table).index(value)) for i, value in enumerate(ids) if value in table]
    assert list(zip(at.tolist(), places.tolist(), strict=True)) == expected
