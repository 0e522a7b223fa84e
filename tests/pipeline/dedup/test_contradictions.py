"""Facts of documents: ids of digits agree wherever the numbers agree."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dedup.contradictions import digit_sequences
from pipeline.text.words import text_column, word_blocks
from tests.pipeline.text.specification import words_of
from tests.pipeline.text.texts import TEXTS


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_texts_of_equal_numbers_have_equal_digits(texts: list[str]) -> None:
    digits = ["".join(c for word in words_of(text) if word[0].isdigit() for c in word if c != ".") for text in texts]
    column = text_column(pa.array([*texts, *digits]))
    found = digit_sequences(column)
    assert found[: len(texts)].tolist() == found[len(texts) :].tolist()
    numbers = np.concatenate([words.number_sequences() for _, words in word_blocks(text_column(pa.array(texts)))])
    for i in range(len(texts)):
        assert (found[: len(texts)][numbers == numbers[i]] == found[i]).all()
