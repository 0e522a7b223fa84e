"""What tells two problems apart that are worded alike, and facts of documents that agree wherever their numbers do."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dedup.contradictions import answer_ids, contradictions, digit_sequences, facts, function_ids
from pipeline.dedup.settings import GUARDS
from pipeline.text.words import text_column, word_blocks
from tests.pipeline.text.specification import words_of
from tests.pipeline.text.texts import TEXTS

EIGHT = "it is the one in the red box"


@pytest.mark.parametrize(
    ("texts", "answers", "guard"),
    [
        (("find x + 3", "find x - 3"), ("", ""), "signs"),
        (("find 3 + x", "find 3 - x"), ("", ""), "signs"),
        (("find x + 3", "find x, 3"), ("", ""), None),
        (("find 3 + x", "find 4 + x"), ("", ""), "numbers"),
        (("now find it", "now find it"), (EIGHT, EIGHT.replace("red", "blue")), "answers"),
        (("now find it", "now find it"), (f"{EIGHT} here", f"{EIGHT} there"), None),  # prose
        (("now find it", "now find it"), (EIGHT, ""), None),
    ],
)
def test_problems_worded_alike_differ_by_a_guard(
    texts: tuple[str, str], answers: tuple[str, str], guard: str | None
) -> None:
    ((_, words),) = word_blocks(text_column(pa.array(texts)))
    found = facts(words, answer_ids(pa.array(answers)), function_ids(pa.array(texts)))
    (code,) = contradictions(found, np.array([0]), np.array([1]))
    assert (GUARDS[code - 1] if code else None) == guard


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_texts_of_equal_numbers_have_equal_digits(texts: list[str]) -> None:
    digits = ["".join(c for word in words_of(text) if word[0].isdigit() for c in word if c != ".") for text in texts]
    column = text_column(pa.array([*texts, *digits]))
    found = digit_sequences(column)
    assert found[: len(texts)].tolist() == found[len(texts) :].tolist()
    numbers = np.concatenate([words.number_sequences() for _, words in word_blocks(text_column(pa.array(texts)))])
    for i in range(len(texts)):
        assert (found[: len(texts)][numbers == numbers[i]] == found[i]).all()


NAMES = ["sin", "Cos", "arctan", "max", "log", "h", "minute", "cost", "f(", "gcd("]
PIECES = st.sampled_from([*"aAfxz (\n.éıİſ\u212a", *NAMES])  # with i, s and k to who ignores case beyond ASCII


@given(st.lists(PIECES, max_size=12).map("".join))
def test_questions_without_a_function_are_told_apart_from_all_others(text: str) -> None:
    """A function is a name between other characters than ASCII letters, or a single letter before a parenthesis."""
    names = ("sin", "cos", "arctan", "max", "log", "gcd", "sinh", "cosh", "arctanh", "asin", "acos", "asinh", "acosh")
    words = (
        "".join(c.lower() if c.isascii() and (c.isalpha() or c == "(") else " " for c in text)
        .replace("(", "( ")
        .split()
    )
    named = [w for w in words if w.rstrip("(") in names or (len(w) == 2 and w.endswith("("))]
    found = function_ids(pa.array([text, None, "plain words"]))
    assert (found[0] == found[2]) == (not named)
    assert found[1] == found[2]
