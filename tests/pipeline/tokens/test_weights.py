"""Copies of documents are as many as the weights say, and spread over the whole training."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.tokens.random_numbers import copies_of, random_numbers, repeat
from pipeline.tokens.stage import RECORD

DOCUMENTS = 50_000


@pytest.mark.parametrize("weight", [1.1, 1.5, 2.0, 2.25])
def test_every_copy_is_spread_evenly(weight: float) -> None:
    records = np.zeros(DOCUMENTS, RECORD)
    records["key"] = random_numbers(7, 0, DOCUMENTS)
    copies = copies_of(pa.array(["s"] * DOCUMENTS), [("s", weight)], 7, 0)
    assert copies.mean() == pytest.approx(weight, abs=0.01)
    repeated, first = repeat(records, np.arange(DOCUMENTS), copies)
    number = np.arange(len(first)) - np.searchsorted(first, first)
    for copy in range(int(copies.max())):
        places = repeated["key"][number == copy] / 2.0**64
        tenths, _ = np.histogram(places, 10, (0, 1))
        assert tenths / len(places) == pytest.approx(np.full(10, 0.1), abs=0.02), f"copy {copy}"
        if copy:  # shuffled again: a copy does not lie beside the first one
            firsts = records["key"][first[number == copy]] / 2.0**64
            assert abs(np.corrcoef(places, firsts)[0, 1]) < 0.05, f"copy {copy}"


def test_copies_are_those_of_before_where_none_was_misplaced() -> None:
    sources = pa.array(["half", "once", "twice"] * 4)
    copies = copies_of(sources, [("half", 0.5), ("twice", 2.0)], 3, 100)
    assert copies.tolist() == [1, 1, 2, 0, 1, 2, 1, 1, 2, 1, 1, 2]
