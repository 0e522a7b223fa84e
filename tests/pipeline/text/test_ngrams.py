"""Words and n-grams: what the normal form keeps and drops, and the fast path equal to the specification."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.dedup.exact import exact_keys, normal_text
from pipeline.dedup.guards import digit_sequences, number_sequences
from pipeline.text.lookup import Lookup
from pipeline.text.ngrams import blocks, ngram_ids, sequence_id, sequence_ids, text_column, windows, word_id, words_of
from pipeline.text.ragged import distinct, jaccard

PIECES = ["a", "bc", "Def", "lengthyword", "0", "12", "345", "000", ".", ",", "-", "--", "*", "**", "+", "=", "<", "/"]
PIECES += ["{", "}", "}{", "{,}", "\\,", ",\\!", "\\", "\\frac", "\\times ", "\\left(", " ", "\n", "$", "'", "^", "%"]
PIECES += [
    "é",
    "É",
    "e\u0301",
    "漢字",
    "α",
    "Σ",
    "×",
    "−",
    "–",
    "²",
    "½",
    "’",
    "“",
    "\u00a0",
    "ﬁ",
    "\U0001f600",
    "٣",
    "\x00",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=40)


def word_ids(texts: list[str], block_bytes: int = 1 << 18) -> list[list[int]]:
    found: list[list[int]] = []
    for first, last, words in blocks(text_column(pa.array(texts, pa.string())), block_bytes):
        assert first == len(found)
        found += [words.ids[words.offsets[d] : words.offsets[d + 1]].tolist() for d in range(last - first)]
    return found


def short_grams(texts: list[str], n: int, block_bytes: int) -> list[list[int]]:
    found: list[list[int]] = []
    for first, last, words in blocks(text_column(pa.array(texts, pa.string())), block_bytes):
        ids, offsets = words.ngrams(n)
        found += [ids[offsets[d] : offsets[d + 1]].tolist() for d in range(last - first)]
    return found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann has 3 coins. How many?", ["ann", "has", "3", "coins", "how", "many"]),
        ("1,000 and 12,345,678 but 1,2 and 1,2345", ["1000", "and", "12345678", "but", "1", "2", "and", "1", "2345"]),
        (r"1{,}000 = 1,\!000 = 1\,000", ["1000", "=", "1000", "=", "1000"]),
        ("3.50, 4. And .5", ["3.50", "4", "and", "5"]),
        ("5km 2x", ["5", "km", "2", "x"]),
        (r"$\frac{1}{2}$ and \dfrac{a}{b}", ["1", "/", "2", "and", "a", "/", "b"]),
        (r"3 \times 4 \le 5 × 6 ≤ 7", ["3", "*", "4", "le", "5", "*", "6", "le", "7"]),
        (r"\text{coins} \boxed{7}", ["coins", "7"]),
        (
            "x-y x - 3 well-known 5-gallon 10-20",
            ["x", "-", "y", "x", "-", "3", "well", "known", "5", "gallon", "10", "-", "20"],
        ),
        ("**bold** 2*3 -- ==", ["bold", "2", "*", "3"]),
        ("“Naïve” CAFE\u0301 x² ½ 漢字", ["naïve", "café", "x", "^", "2", "1", "/", "2", "漢", "字"]),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert words_of(text) == words
    assert word_ids([text]) == [[word_id(word) for word in words]]


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS, max_size=6), st.sampled_from([1, 40, 1 << 18]))
@example(["3.1,000", "-1,000", "12,345{,}678\\,901,", "}1,000{", "9,999999"], 1)
@example(["/}{", "/}{/ }{ //}{"], 1)
@example(["ends with letters", "begins too", "5", "6", ",", "000"], 1 << 18)
def test_fast_path_equals_the_specification(texts: list[str], block_bytes: int) -> None:
    texts = [text.encode(errors="replace").decode() for text in texts]
    assert word_ids(texts, block_bytes) == [[word_id(word) for word in words_of(text)] for text in texts]
    assert short_grams(texts, 3, block_bytes) == [ngram_ids(text, 3) for text in texts]


def test_rows_keep_apart_and_columns_join() -> None:
    assert word_ids(["one two", "three"]) == [*word_ids(["one two"]), *word_ids(["three"])]
    column = text_column(pa.array(["a b", None]), pa.array(["c", "d é"]))
    assert column.to_pylist() == ["a b\nc\n", "\nd é\n"]
    assert word_ids(column.to_pylist()) == [[word_id(w) for w in "abc"], [word_id("d"), word_id("é")]]


def test_sliced_and_chunked_columns() -> None:
    texts = pa.chunked_array([["zero", "one é"], ["two"]])
    assert text_column(texts.slice(1)).to_pylist() == ["one é\n", "two\n"]
    assert [last - first for first, last, _ in blocks(text_column(texts).slice(1))] == [2]


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


def test_normal_form_of_whole_texts() -> None:
    assert normal_text("  Two   Words,\nthen\t( 3 + 4 ) . ") == "two words,then(3+4)."
    assert normal_text("1 2") != normal_text("12")
    same, _ = exact_keys(text_column(pa.array(["A b.", "a  B ."]), pa.array(["c", "C\n"])))
    assert (same[0] == same[1]).all()
    other, lengths = exact_keys(text_column(pa.array(["x+y", "x-y", None, ""])))
    assert len({tuple(key) for key in other.tolist()}) == 3
    assert lengths.tolist() == [3, 3, 0, 0]


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


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_texts_of_equal_numbers_have_equal_digits(texts: list[str]) -> None:
    digits = ["".join(c for word in words_of(text) if word[0].isdigit() for c in word if c != ".") for text in texts]
    column = text_column(pa.array([*texts, *digits]))
    found = digit_sequences(column)
    assert found[: len(texts)].tolist() == found[len(texts) :].tolist()
    numbers = np.concatenate([number_sequences(words) for *_, words in blocks(text_column(pa.array(texts)))])
    for i in range(len(texts)):
        assert (found[: len(texts)][numbers == numbers[i]] == found[i]).all()


@given(
    st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 50)), st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 50))
)
def test_lookup_finds_what_is_in_the_table(table: set[int], ids: list[int]) -> None:
    ids += sorted(table)
    at, places = Lookup(np.array(sorted(table), np.uint64)).find(np.array(ids, np.uint64))
    expected = [(i, sorted(table).index(value)) for i, value in enumerate(ids) if value in table]
    assert list(zip(at.tolist(), places.tolist(), strict=True)) == expected
