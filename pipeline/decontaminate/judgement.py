r"""Judge whether a question is that of an item by what words in a row do not tell: final answers,
brackets, figures.

>>> nothing = np.empty(0, np.uint64), np.empty(0, np.uint8)
>>> item, other = (Problem(text, "", *nothing) for text in (r"Simplify $\frac{t+1}{t}$.", r"Simplify $t+\frac1t$."))
>>> item.brackets_differ(other), item.brackets_differ(Problem("Simplify (t + 1)/t", "", *nothing))
(True, False)
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property

import numpy as np

from dreamer_study.pipeline.decontaminate.agreement import VARIABLES
from dreamer_study.pipeline.decontaminate.omissions import figures, without_figures
from dreamer_study.pipeline.decontaminate.settings import (
    EXACT,
    FORMULA,
    OVERLAP,
    REPHRASED,
    TEMPLATE,
)
from dreamer_study.pipeline.text.answers import answer_key
from dreamer_study.pipeline.text.ngrams import word_id
from dreamer_study.pipeline.text.normal_form import fold
from dreamer_study.pipeline.text.number_words import ONE
from dreamer_study.pipeline.text.words import LETTERS, NUMBER

_LAYOUT = re.compile(r"\\(?:left|right|[dtc]?frac)|[\s\\$/]")
_IN_BRACKETS = re.compile(r"[({]([^(){}]*[-+*^=<>][^(){}]*)[)}]")
_FORMULA = re.compile(r"\\[a-zA-Z]|[\^=]|(?<![\w'’.-])[b-z](?![\w'’.-])")
_GRAMMAR = """a about after all also altogether am an and any are as at be been before both but by can could did do does
each every find for from get gets given had has have he her hers him his how i if in into is it its just left many more
much must my of off on one or other our out over own per s same she should so some than that the their them then there
these they this those to too total up was we were what when where which while who will with would you your"""
_GRAMMAR_IDS = frozenset(map(word_id, _GRAMMAR.split()))
# a question may have so many times the words of an item, and so many more
_LITTLE, _MUCH = (1.2, 8), (2.0, 16)
_MOST, _HALF = 0.8, 0.5  # of the content words of an item
_STORY_WORDS = 10  # of letters: the least of a word problem
# content words that a rephrased problem shares with the item: problems of one template share fewer
_LEAST_SHARED = 8
_LEAST_NUMBERS = 2  # of a rephrased problem
_EQUALS, _LETTERS = word_id("="), np.array(sorted(VARIABLES), np.uint64)


class Problem:
    """Hold what tells a problem, of an item or a document, from others: its text as it stands, its
    answer, its words.

    `answer` is the key of the answer, "" for a letter that may name an option. `sequence` are the
    numbers, `numbers` the same in any order but for 1, which may be a word, `content` the words
    beyond grammar, `formula` numbers, signs and variables.
    """

    def __init__(self, text: str, answer: str, ids: np.ndarray, kinds: np.ndarray) -> None:
        key = answer_key(answer)
        self.text, self.ids, self.kinds, self.length = text, ids, kinds, len(text.split())
        self.answer = key if len(key.strip("() ")) > 1 or key.isdigit() else ""

    numbers = cached_property(
        lambda self: Counter(number for number in self.sequence if number != ONE)
    )
    content = cached_property(
        lambda self: frozenset(self.ids[self.kinds == LETTERS].tolist()) - _GRAMMAR_IDS
    )
    sequence = cached_property(
        lambda self: self.ids[(self.kinds == NUMBER) | (self.ids == ONE)].tolist()
    )
    formula = cached_property(
        lambda self: self.ids[
            ((self.kinds >= NUMBER) | np.isin(self.ids, _LETTERS)) & (self.ids != _EQUALS)
        ].tolist()
    )

    @cached_property
    def is_story(self) -> bool:
        """Whether this is a word problem: prose without formulas and variables."""
        prose = np.count_nonzero(self.kinds == LETTERS) >= _STORY_WORDS
        return bool(prose) and not _FORMULA.search(without_figures(self.text))

    @cached_property
    def _brackets(self) -> tuple[Counter[str], str]:
        """Return what stands in brackets with a sign in it, and the text without brackets."""
        plain = _LAYOUT.sub("", fold(without_figures(self.text))).lower()
        return Counter(_IN_BRACKETS.findall(plain)), re.sub("[(){}]", "", plain)

    def brackets_differ(self, other: Problem) -> bool:
        """Test whether an expression in brackets of one problem stands without brackets in the
        other."""
        (ours, mine), (theirs, their) = self._brackets, other._brackets
        return any(group in their for group in ours - theirs) or any(
            group in mine for group in theirs - ours
        )

    def resembles(self, other: Problem) -> bool:
        """Test whether the other problem has half of the content words of this one: much faster
        than to align both."""
        return len(self.content & other.content) >= _HALF * len(self.content)


def judge(item: Problem, asked: Problem, grade: str | None) -> str | None:
    """Return the grade in which the question `asked` holds the item, given the grade by words, None
    for none."""
    same = "" != item.answer == asked.answer
    most, more = _LITTLE if grade in (EXACT, OVERLAP) else _MUCH
    if not item.resembles(asked) or asked.length > most * item.length + more:
        return grade  # the item may stand elsewhere in the document
    if grade in (EXACT, OVERLAP):
        differ = all(
            key and not key.replace(" ", "").isalpha() for key in (item.answer, asked.answer)
        )
        drawn = item.numbers.total() < 2 and any(map(str.isdigit, figures(item.text)))
        other = not same and (differ or drawn or item.brackets_differ(asked))
        return (
            TEMPLATE
            if other and "".join(item.text.split()) not in "".join(asked.text.split())
            else grade
        )
    if not same or not item.numbers or not item.numbers <= asked.numbers:
        return grade
    ours, theirs = (one.sequence if item.is_story else one.formula for one in (item, asked))
    shared = len(item.content & asked.content)
    more = len(theirs) - len(ours)  # numbers, which may stand in one place, as of a sentence more
    fits = any(
        ours[:at] + theirs[at : at + more] + ours[at:] == theirs for at in range(len(ours) + 1)
    )
    fits = fits and (more == 0 or shared >= _LEAST_SHARED)
    if fits and shared >= _MOST * len(item.content):
        return OVERLAP
    if (
        shared < _LEAST_SHARED
        or item.numbers.total() < _LEAST_NUMBERS
        or item.numbers != asked.numbers
    ):
        return grade
    return REPHRASED if item.is_story else FORMULA
