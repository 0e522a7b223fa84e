"""The words of a text and the form in which texts are compared."""

import random
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dreamer_study.pipeline.text import normal_form
from dreamer_study.pipeline.text.arrays import IdTable, distinct, jaccard
from dreamer_study.pipeline.text.ngrams import sequence_ids, windows, word_id
from dreamer_study.pipeline.text.number_words import read_numbers
from dreamer_study.pipeline.text.words import text_column, word_blocks
from tests.pipeline.text.specification import TEXTS, ngram_ids, word_ids, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann has 3 coins. How many?", ["ann", "has", "3", "coins", "how", "many"]),
        (
            "1,000 and 12,345,678 but 1,2 and 1,2345",
            ["1000", "and", "12345678", "but", "1", "2", "and", "1", "2345"],
        ),
        (r"1{,}000 = 1,\!000 = 1\,000", ["1000", "=", "1000", "=", "1000"]),
        ("3.50, 4. And .5", ["3.50", "4", "and", "5"]),
        ("5km 2x", ["5", "km", "2", "x"]),
        (r"$\frac{1}{2}$ and \dfrac{a}{b}", ["1", "/", "2", "and", "a", "/", "b"]),
        (r"3 \times 4 \le 5 × 6 ≤ 7", ["3", "*", "4", "<=", "5", "*", "6", "<=", "7"]),
        (
            r"x <= 5 \leqslant y, n!=5, x != 5 \not= 6",
            [*"x", "<=", *"5", "<=", *"yn=5x", "!=", "5", "!=", "6"],
        ),
        (
            r"[math]x[/math]-axis <latex>3</latex> *x*-axis 2*3*4 (*y*)",
            [*"x", "axis", "3", "x", "axis", *"2*3*4y"],
        ),
        ("x<sup>2</sup> a<b>c <b>d</b> x<sub>1</sub> <p>e<br/>f</p>", [*"x^2a<b>cdx1ef"]),
        (
            "x⁻¹² x₁₂ 5ᵗʰ 30º ‖v‖",
            ["x", "^", "-", "12", "x", "12", "5", "th", "30", "^", "circ", "v"],
        ),
        (
            r"\\frac{1}{2} \textcolor{red}{3} \color{blue}{4} \tag{7} \operatorname*{lcm}",
            [*"1/234", "lcm"],
        ),
        (
            r"1 000 000, 1~000, 12\;345, 1~000, 5'000, 2019 100",
            ["1000000", "1000", "12345", "1000", "5000", "2019", "100"],
        ),
        ("3 x 4, 3x4, 3x, 30 X 40", [*"3*43x43x", "30", "*", "40"]),
        (r"$3$ x $4$ or \(3\) X **4**", [*"3*4", "or", *"3*4"]),
        (r"{1 \over 2} \frac\pi2 x \degree", [*"1/2", "pi", "/", "2", "x", "^", "circ"]),
        (r"\text{coins} \boxed{7}", ["coins", "7"]),
        (
            "x-y x - 3 well-known 5-gallon 10-20",
            ["x", "-", "y", "x", "-", "3", "well", "known", "5", "gallon", "10", "-", "20"],
        ),
        (
            r"2xy-4yz AB-CD abc-2 \pi-3 2x-sin y no-one",
            [
                *[
                    "2",
                    "xy",
                    "-",
                    "4",
                    "yz",
                    "ab",
                    "-",
                    "cd",
                    "abc",
                    "-",
                    "2",
                    "pi",
                    "-",
                    "3",
                    "2",
                    "x",
                    "-",
                    "sin",
                    "y",
                    "no",
                    "one",
                ]
            ],
        ),
        (
            r"$x$-axis \(y\)-axis `n`-gon **5**-digit \textbf{z}-axis non-$k$ $x$-$y$ (x)-axis",
            [
                *[
                    "x",
                    "axis",
                    "y",
                    "axis",
                    "n",
                    "gon",
                    "5",
                    "digit",
                    "z",
                    "axis",
                    "non",
                    "k",
                    "x",
                    "-",
                    "y",
                    "x",
                    "-",
                    "axis",
                ]
            ],
        ),
        ("**bold** 2*3 -- ==", ["bold", "2", "*", "3"]),
        (
            "“Naïve” CAFE\u0301 x² ½ 漢字",
            ["naïve", "café", "x", "^", "2", "1", "/", "2", "漢", "字"],
        ),
        (
            r"\log_82+\log_{82} 5, \log_10 2",
            ["log", "8", "2", "+", "log", "82", "5", "log", "10", "2"],
        ),
        (
            r"\frac12, \tfrac 1{34}, \dfrac5{12}",
            ["1", "/", "2", "1", "/", "34", "5", "/", "12"],
        ),
        (
            r"\frac{1}2 \frac ab \dfrac{x} {y} \frac1\pi \binom84",
            [*"1/2a/bx/y1/", "pi", "binom", *"8/4"],
        ),
        (r"\dbinom{8}{4} {\rm cm} \vert w \vert {\bf x}", ["binom", *"8/4", "cm", "w", "x"]),
        (r"\begin{align*} x &= 2 \end{align*}", ["x", "=", "2"]),
        (r"\textbackslash frac{1}{2} Ben\textquotesingle s", ["1", "/", "2", "ben", "s"]),
        ("a&nbsp;b &lt; 5 &#39;x&#x27; R&D; AT&T", ["a", "b", "<", "5", "x", "r", "d", "at", "t"]),
        (
            "∠A, △ABC, 2θ, 𝜃 ⊥ ϕ",
            ["angle", "a", "triangle", "abc", "2", "theta", "theta", "perp", "phi"],
        ),
        (
            "J\u0430net's \u0430pple \u0430nd \u0441\u0435\u0430",
            ["janet", "s", "apple", "and", "cea"],
        ),
        ("λόγος, \u0440\u044b\u0431\u0430", ["λόγος", "\u0440\u044b\u0431\u0430"]),
        ("so\u00adft\u200bly", ["softly"]),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert words_of(text) == words
    assert word_ids([text]) == [[word_id(word) for word in words]]


def test_the_example_of_the_module() -> None:
    examples = [
        re.split(" {3,}", line.strip())
        for line in normal_form.__doc__.splitlines()
        if line.startswith("    ")
    ]
    assert len(examples) == 5
    for text, plain in examples:
        assert words_of(text) == words_of(plain)
        assert word_ids([text]) == word_ids([plain])


def short_grams(texts: list[str], n: int, block_bytes: int) -> list[list[int]]:
    found: list[list[int]] = []
    for rows, words in word_blocks(text_column(pa.array(texts, pa.string())), block_bytes):
        ids, offsets = words.ngrams(n)
        found += [ids[offsets[d] : offsets[d + 1]].tolist() for d in range(rows.stop - rows.start)]
    return found


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(TEXTS, max_size=6), st.sampled_from([1, 40, 1 << 18]))
@example(["3.1,000", "-1,000", "12,345{,}678\\,901,", "}1,000{", "9,999999"], 1)
@example(["/}{", "/}{/ }{ //}{"], 1)
@example(["ends with letters", "begins too", "5", "6", ",", "000"], 1 << 18)
def test_fast_path_equals_the_specification(texts: list[str], block_bytes: int) -> None:
    texts = [text.encode(errors="replace").decode() for text in texts]
    assert word_ids(texts, block_bytes) == [
        [word_id(word) for word in words_of(text)] for text in texts
    ]
    assert short_grams(texts, 3, block_bytes) == [ngram_ids(text, 3) for text in texts]


def test_rows_keep_apart_and_columns_join() -> None:
    assert word_ids(["one two", "three"]) == [*word_ids(["one two"]), *word_ids(["three"])]
    column = text_column(pa.array(["a b", None]), pa.array(["c", "d é"]))
    assert column.to_pylist() == ["a b\nc\n", "\nd é\n"]
    assert word_ids(column.to_pylist()) == [
        [word_id(w) for w in "abc"],
        [word_id("d"), word_id("é")],
    ]


def test_sliced_and_chunked_columns() -> None:
    texts = pa.chunked_array([["zero", "one é"], ["two"]])
    assert text_column(texts.slice(1)).to_pylist() == ["one é\n", "two\n"]
    assert [rows for rows, _ in word_blocks(text_column(texts).slice(1))] == [slice(0, 2)]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(1, 9))
def test_windows_are_sequences_of_n_words(ids: list[int], n: int) -> None:
    words = np.array(ids, np.uint64)
    first = np.arange(max(len(ids) - n + 1, 0))
    assert windows(words, n).tolist() == sequence_ids(words, first, first + n).tolist()


def test_jaccard_of_many_pairs_equals_sets() -> None:
    draw = random.Random(0)
    sets = [
        [
            draw.randrange(1 << 64) if draw.random() < 0.2 else draw.randrange(40) << 20
            for _ in range(n % 37)
        ]
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


@pytest.mark.slow
@given(
    st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 50)),
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 50)),
)
def test_a_table_finds_what_is_in_the_table(table: set[int], ids: list[int]) -> None:
    ids += sorted(table)
    at, places = IdTable(np.array(sorted(table), np.uint64)).find(np.array(ids, np.uint64))
    expected = [(i, sorted(table).index(value)) for i, value in enumerate(ids) if value in table]
    assert list(zip(at.tolist(), places.tolist(), strict=True)) == expected


def test_only_short_runs_are_remembered() -> None:
    before = normal_form._fold_run.cache_info().currsize
    assert len(normal_form.fold("字" * 1000).split()) == 1000
    assert normal_form._fold_run.cache_info().currsize == before


def test_number_words_are_read_as_numbers() -> None:
    texts = [
        "One has fifty-five, two hundred and six or five six",
        "a thousand five hundred and\nten twenty-one",
    ]
    read = ["1 has 55 206 or 5 6", "a 1500 and 10 21"]
    ((_, words),) = word_blocks(text_column(pa.array(texts)))
    found = read_numbers(words)
    assert found.ids.tolist() == [word_id(word) for text in read for word in text.split()]
    assert np.diff(found.offsets).tolist() == [len(text.split()) for text in read]
