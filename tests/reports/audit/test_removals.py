"""Differences between a removed document and its cause: nothing is lost, and what is not marked is in both."""

from hypothesis import given
from hypothesis import strategies as st

from reports.audit.removals import COMPARED, differences

texts = st.lists(st.sampled_from(["a", "b,", "3", "4", "<i>", "\n", " ", "x=1"]), max_size=20).map(" ".join)


@given(texts, texts)
def test_both_texts_are_whole_and_what_is_not_marked_is_in_both(first, second):
    sides = differences(first, second)
    for text, side in zip((first, second), sides, strict=True):
        assert "".join(piece for piece, _ in side) == text
    ours, theirs = (" ".join(piece for piece, differs in side if not differs).split() for side in sides)
    assert ours == theirs


def test_an_exchanged_word_is_marked_on_both_sides():
    assert differences("He has 3 pens.", "He has 4 pens.") == (
        [("He has ", False), ("3 ", True), ("pens.", False)],
        [("He has ", False), ("4 ", True), ("pens.", False)],
    )


def test_a_long_text_is_cut_with_the_number_of_characters_that_are_left_out():
    ours, theirs = differences("ab " * COMPARED, "ab")
    assert ours[-1] == (f"… [{2 * COMPARED:,} characters more]", False)
    assert theirs == [("ab", False)]
