"""What the normal form keeps and drops: by the specification, and by the fast path on columns."""

import re

import pytest

from pipeline.text import normal_form
from pipeline.text.ngrams import word_id
from tests.pipeline.text.specification import words_of
from tests.pipeline.text.texts import word_ids


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
        (r"\log_82+\log_{82} 5, \log_10 2", ["log", "8", "2", "+", "log", "82", "5", "log", "10", "2"]),
        (r"\frac12, \tfrac 1{34}, \dfrac5{12}", ["1", "/", "2", "1", "34", "5", "/", "12"]),
        (r"\textbackslash frac{1}{2} Ben\textquotesingle s", ["1", "/", "2", "ben", "s"]),
        ("a&nbsp;b &lt; 5 &#39;x&#x27; R&D; AT&T", ["a", "b", "<", "5", "x", "r", "d", "at", "t"]),
        ("∠A, △ABC, 2θ, 𝜃 ⊥ ϕ", ["angle", "a", "triangle", "abc", "2", "theta", "theta", "perp", "phi"]),
        ("J\u0430net's \u0430pple \u0430nd \u0441\u0435\u0430", ["janet", "s", "apple", "and", "cea"]),
        ("λόγος, \u0440\u044b\u0431\u0430", ["λόγος", "\u0440\u044b\u0431\u0430"]),
        ("so\u00adft\u200bly", ["softly"]),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert words_of(text) == words
    assert word_ids([text]) == [[word_id(word) for word in words]]


def test_the_example_of_the_module() -> None:
    examples = [re.split(" {3,}", line.strip()) for line in normal_form.__doc__.splitlines() if line.startswith("    ")]
    assert len(examples) == 4
    for text, plain in examples:
        assert words_of(text) == words_of(plain)
        assert word_ids([text]) == word_ids([plain])
