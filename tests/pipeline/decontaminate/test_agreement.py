"""How much of a passage an edited copy may lack: each bound from both sides."""

import pyarrow as pa
import pytest

from pipeline.decontaminate.agreement import Target
from pipeline.text.words import Words, text_column, word_blocks

WORDS = [f"{a}{b}{c}" for a in ("ba", "ke", "lo") for b in ("ra", "to", "nu") for c in ("sol", "dim", "xen")]


def parts(words: list[str]) -> Words:
    ((_, found),) = word_blocks(text_column(pa.array([" ".join(words)])))
    return found


def agrees(passage: list[str], last: int, document: list[str]) -> bool:
    words, item = parts(document), parts(passage)
    return Target(item.ids, item.kinds, last).agrees(words, slice(0, len(words.ids)))


def exchanged(passage: list[str], places: list[int]) -> list[str]:
    """Exchange the words at these places, each for another new word."""
    return [f"new{'abcdefgh'[places.index(at)]}" if at in places else word for at, word in enumerate(passage)]


@pytest.mark.parametrize(("words", "copy"), [(2, True), (3, False)])
def test_one_word_in_nine_may_be_exchanged(words: int, copy: bool) -> None:
    assert agrees(WORDS[:18], 4, exchanged(WORDS[:18], [2, 6, 10][:words])) == copy


@pytest.mark.parametrize(("times", "copy"), [(6, True), (7, False)])
def test_seven_words_in_ten_are_kept_where_one_is_exchanged_throughout(times: int, copy: bool) -> None:
    passage = [word for other in WORDS[:times] for word in ("ann", other)] + WORDS[times : 20 - times]
    assert len(passage) == 20
    assert agrees(passage, 3, ["eva" if word == "ann" else word for word in passage]) == copy


@pytest.mark.parametrize(("words", "copy"), [(2, True), (3, False)])
def test_three_quarters_of_what_is_asked_are_kept(words: int, copy: bool) -> None:
    assert agrees(WORDS, 8, exchanged(WORDS, [20, 22, 24][:words])) == copy
    assert agrees(WORDS, 8, exchanged(WORDS, [4, 8, 12][:words]))  # before the last sentence
