"""Ids of word sequences and n-grams: the numpy forms equal the definitions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.ngrams import sequence_ids, windows, word_id
from tests.pipeline.text.specification import sequence_id


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(1, 9))
def test_windows_are_sequences_of_n_words(ids: list[int], n: int) -> None:
    words = np.array(ids, np.uint64)
    first = np.arange(max(len(ids) - n + 1, 0))
    assert windows(words, n).tolist() == sequence_ids(words, first, first + n).tolist()


def test_sequences_of_words() -> None:
    ids = np.array([word_id(word) for word in ["how", "many", "coins", "are", "left"]], np.uint64)
    found = sequence_ids(ids, np.array([0, 1, 2]), np.array([5, 3, 2]))
    expected = [sequence_id(["how", "many", "coins", "are", "left"]), sequence_id(["many", "coins"]), 0]
    assert found.tolist() == expected
