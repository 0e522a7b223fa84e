r"""Judge whether a question is that of an item, by more than words in a row.

Final answers, brackets and figures are compared:

>>> def problem(text):
...     return Problem(text, "", np.empty(0, np.uint64), np.empty(0, np.uint8))
>>> item = problem(r"Simplify $\frac{t+1}{t}$.")
>>> item.brackets_differ(problem(r"Simplify $t+\frac1t$."))
True
>>> item.brackets_differ(problem("Simplify (t + 1)/t"))
False
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dreamer_study.pipeline.decontaminate.agreement import VARIABLES
from dreamer_study.pipeline.decontaminate.omissions import figures, without_figures
from dreamer_study.pipeline.decontaminate.settings import (
    EXACT,
    FORMULA,
    LOOSELY,
    OVERLAP,
    REPHRASED,
    TEMPLATE,
)
from dreamer_study.pipeline.text.answers import answer_key
from dreamer_study.pipeline.text.deciding_marks import deciding_marks
from dreamer_study.pipeline.text.deciding_words import asks_otherwise
from dreamer_study.pipeline.text.instructions import without_instruction
from dreamer_study.pipeline.text.layout import plain_signs
from dreamer_study.pipeline.text.ngrams import word_id
from dreamer_study.pipeline.text.number_words import ONE
from dreamer_study.pipeline.text.words import LETTERS, NUMBER

_POWER_IN_BRACES = re.compile(r"\{([\w.^]*)\}")
_IN_BRACKETS = re.compile(r"[({]([^(){}]*[-+*^=<>][^(){}]*)[)}]")
# A letter alone is a variable. Here, unlike in `agreement.VARIABLES`, "i", "s" and "t" are too: the
# text shows the apostrophe of "it's", which ids of words do not, and "I" is no small letter.
_FORMULA = re.compile(r"\\[a-zA-Z]|[\^=]|(?<![\w'’.-])[b-z](?![\w'’.-])")
_GRAMMAR = """
a about after all also altogether am an and any are as at be been before both but by can could did
do does each every find for from get gets given had has have he her hers him his how i if in into
is it its just left many more much must my of off on one or other our out over own per s same she
should so some than that the their them then there these they this those to too total up was we
were what when where which while who will with would you your
"""
_GRAMMAR_WORDS = frozenset(_GRAMMAR.split())
_GRAMMAR_IDS = frozenset(map(word_id, _GRAMMAR_WORDS))
# The first word of an answer, those of grammar aside, that says whether something is so.
_VERDICTS = {"yes": "yes", "true": "yes", "no": "no", "false": "no", "not": "no"}
# Options that a text lists, as "(A) 4 (B) 5".
_OPTION = re.compile(r"(?<![\w'’])\(?[A-Ea-e][).:](?=\s)")
# A question may have so many times the words of an item, and so many more; both are counted by
# blanks, in the texts with their figures.
_LITTLE_LONGER = (1.2, 8)
_MUCH_LONGER = (2.0, 16)
_MOST = 0.8  # of the content words of an item
_HALF = 0.5
_STORY_WORDS = 10  # of letters: the least of a word problem
# Content words that a rephrased problem to be removed shares with the item: problems of one
# template share fewer. From fewer words on it is listed; and removed, if these are most of a short
# problem's and three numbers or more are in the same order.
_LEAST_SHARED = 8
_LEAST_LISTED = 5
_MOST_OF_SHORT = 2 / 3
_LEAST_NUMBERS = 2  # of a rephrased problem
_ENOUGH_NUMBERS = 3  # of a short one
# The question of a contest that has only whole numbers as answers: "Find m + n."
_SUM_OF_LETTERS = re.compile(
    r"(?:find|compute|determine|evaluate|calculate|whatis|give|report|submit|enter|state)"
    r"(?:(?:the)?(?:valueof|sumof|sum|value|integer|quantity)){0,2}"
    r"(?:(?:\d*[a-z]|\d+)(?:[-+*](?:\d*[a-z]|\d+)){1,4}|(?:the)?sumof[a-z](?:,[a-z])*,?and[a-z]"
    r"|(?:its|the)?(?:sumof)?(?:the|its)?numerator(?:and|plus|\+)(?:the"
    r"|its)?denominator(?:of.{0,40})?)"
    r"(?:,?(?:if|where|when|given|for).{0,90})?$"
)
_EQUALS = word_id("=")
_LETTERS = np.array(sorted(VARIABLES), np.uint64)


class Problem:
    """Hold what distinguishes a problem, of an item or a document, from others.

    `text` is the text itself, `ids` and `kinds` are its words, `length` is the number of words
    between blanks. `answer` is the key of the answer, "" for a letter that may name an option;
    `letter` is that letter, unless the text lists the options, whose order may be another one.
    `whole` is what a copy sign for sign holds of an item, or the document that may hold the copy.
    """

    def __init__(
        self, text: str, answer: str, ids: np.ndarray, kinds: np.ndarray, whole: str | None = None
    ) -> None:
        self.text = text
        self.whole = text if whole is None else whole
        self.ids = ids
        self.kinds = kinds
        self.length = len(text.split())
        key = answer_key(answer)
        is_letter = len(key.strip("() ")) <= 1 and not key.isdigit()
        self.answer = "" if is_letter else key
        lists_options = len(_OPTION.findall(text)) > 1
        self.letter = key if is_letter and not lists_options else ""

    @cached_property
    def sequence(self) -> list[int]:
        """The numbers in their order."""
        return self.ids[(self.kinds == NUMBER) | (self.ids == ONE)].tolist()

    @cached_property
    def numbers(self) -> Counter[int]:
        """The numbers in any order, but for 1, which may be a word."""
        return Counter(number for number in self.sequence if number != ONE)

    @cached_property
    def content(self) -> frozenset[int]:
        """The words of letters beyond grammar."""
        return frozenset(self.ids[self.kinds == LETTERS].tolist()) - _GRAMMAR_IDS

    @cached_property
    def formula(self) -> list[int]:
        """Numbers, signs and variables in their order, without equals signs."""
        in_formulas = (self.kinds >= NUMBER) | np.isin(self.ids, _LETTERS)
        return self.ids[in_formulas & (self.ids != _EQUALS)].tolist()

    @cached_property
    def is_story(self) -> bool:
        """Whether this is a word problem: prose without formulas and variables."""
        prose = np.count_nonzero(self.kinds == LETTERS) >= _STORY_WORDS
        return bool(prose) and not _FORMULA.search(without_figures(self.text))

    @cached_property
    def _brackets(self) -> tuple[Counter[str], str]:
        """Return what is in brackets with a sign in it, and the text without brackets."""
        plain = _POWER_IN_BRACES.sub(r"\1", self._question.replace("/", ""))
        return Counter(_IN_BRACKETS.findall(plain)), re.sub("[(){}]", "", plain)

    @cached_property
    def _question(self) -> str:
        """The signs of the question, without figures."""
        return plain_signs(without_figures(self.text))

    @cached_property
    def _asked(self) -> str:
        """The signs of the question, without figures and instructions behind."""
        return plain_signs(without_instruction(without_figures(self.text)))

    @cached_property
    def asks_for_sum(self) -> bool:
        """Whether the question ends as one of a contest that has only whole numbers as answers."""
        return bool(_SUM_OF_LETTERS.search(self._asked))

    @cached_property
    def _signs(self) -> tuple[str, str]:
        """The signs of the whole text, without figures and of the figures."""
        return plain_signs(without_figures(self.whole)), plain_signs(figures(self.whole))

    def holds(self, item: Problem, *, wholly: bool) -> bool:
        """Test whether this document holds an item sign for sign, its figures included.

        An item held `wholly` has its closing sentences too, or nothing is asked behind it.
        """
        signs, figure_signs = self._signs
        item_signs, _ = item._signs
        if item_signs not in signs or plain_signs(figures(item.text)) not in figure_signs:
            return False
        if not wholly or item._question in signs:
            return True
        return self._asked.endswith(item_signs)

    @cached_property
    def marks(self) -> Counter[str]:
        """The marks that decide, without figures."""
        return deciding_marks(without_figures(self.text))

    @cached_property
    def _asked_marks(self) -> Counter[str]:
        """The marks that decide, without figures and instructions behind."""
        return deciding_marks(without_instruction(without_figures(self.text)))

    def marks_differ(self, other: Problem) -> bool:
        """Test whether a mark that decides is in one of both only, but for closing sentences.

        The form of the answer that a contest asks for may hold some of its own.
        """
        if self._asked_marks - other.marks:
            return True
        if other.asks_for_sum and not self.asks_for_sum:
            return False
        return bool(other._asked_marks - self.marks)

    def has_signs_of(self, other: Problem) -> bool:
        """Test whether both questions are equal sign for sign."""
        return self._question == other._question

    def brackets_differ(self, other: Problem) -> bool:
        """Test whether an expression in brackets of one is without brackets in the other."""
        ours, our_text = self._brackets
        theirs, their_text = other._brackets
        lost = any(expression in their_text for expression in ours - theirs)
        return lost or any(expression in our_text for expression in theirs - ours)

    def resembles(self, other: Problem) -> bool:
        """Test whether the other problem has half of the content words of this one.

        That is much faster than to align both.
        """
        return len(self.content & other.content) >= _HALF * len(self.content)


def judge(item: Problem, asked: Problem, grade: str | None) -> str | None:
    """Return the grade in which the question `asked` holds the item; None for none.

    `grade` is the grade by words.
    """
    found_by_words = grade in (EXACT, OVERLAP)
    factor, words = _LITTLE_LONGER if found_by_words else _MUCH_LONGER
    if not item.resembles(asked) or asked.length > factor * item.length + words:
        return grade  # the question is another one; the item may be elsewhere in the document
    if found_by_words:
        return TEMPLATE if _is_another_problem(item, asked) else grade
    if not have_same_answer(item, asked) or not item.numbers or not item.numbers <= asked.numbers:
        return grade
    shared = len(item.content & asked.content)
    if shared >= _MOST * len(item.content):
        if asks_otherwise(item.content - asked.content, asked.content - item.content):
            return grade
        if _has_same_steps(item, asked, shared):
            return OVERLAP
    if item.numbers != asked.numbers or item.numbers.total() < _LEAST_NUMBERS:
        return grade
    return _grade_of_rephrased(item, asked, shared) or grade


def _grade_of_rephrased(item: Problem, asked: Problem, shared: int) -> str | None:
    """Return the grade of a problem with the numbers, the answer and some words of an item."""
    many_words = shared >= _MOST_OF_SHORT * len(item.content)
    many_numbers = item.numbers.total() >= _ENOUGH_NUMBERS and item.sequence == asked.sequence
    if shared < _LEAST_LISTED:
        return None
    if not item.is_story:
        return FORMULA if shared >= _LEAST_SHARED else None
    if shared >= _LEAST_SHARED or (many_words and many_numbers):
        return REPHRASED
    return LOOSELY


def have_same_answer(item: Problem, asked: Problem) -> bool:
    """Test whether both have an answer that is known, and the same."""
    return item.answer != "" and item.answer == asked.answer


def _is_another_problem(item: Problem, asked: Problem) -> bool:
    """Test whether a question with nearly the words of an item is another problem."""
    if have_same_answer(item, asked):
        return False
    answers_differ = _differ(item.answer, asked.answer) or _letters_differ(item, asked)
    # The answer to a contest's form of an item ("Find m + n.") is another one.
    answers_differ = answers_differ and item.asks_for_sum == asked.asks_for_sum
    # The item's numbers are in its figure, which the words leave out.
    in_figure = item.numbers.total() < 2 and any(map(str.isdigit, figures(item.text)))
    other_signs = not item.has_signs_of(asked) and (
        item.brackets_differ(asked) or item.marks_differ(asked)
    )
    if not (answers_differ or in_figure or other_signs):
        return False
    # A copy sign for sign, blanks aside, is one whatever its answer (docs/decisions.md).
    return not asked.holds(item, wholly=answers_differ)


def _letters_differ(item: Problem, asked: Problem) -> bool:
    """Test whether both answers are letters, of options that stand in neither text."""
    return "" not in (item.letter, asked.letter) and item.letter != asked.letter


def _differ(ours: str, theirs: str) -> bool:
    """Test whether two answers contradict each other, "" being none.

    A value contradicts any other value. A word for yes contradicts one for no. Other words
    contradict as many other words, counted with or without those of grammar, and words that decide
    something else ("northwest", "He stands in the northeast"). Otherwise the same answer may be
    worded in another way.
    """
    if not ours or not theirs:
        return False
    if _is_value(ours) != _is_value(theirs):
        return False
    return _is_value(ours) or _words_differ(ours.split(), theirs.split())


def _words_differ(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    our_content = [word for word in ours if word not in _GRAMMAR_WORDS] or ours
    their_content = [word for word in theirs if word not in _GRAMMAR_WORDS] or theirs
    verdicts = {_VERDICTS.get(our_content[0]), _VERDICTS.get(their_content[0])}
    if None not in verdicts:
        return len(verdicts) > 1
    if our_content == their_content:
        return False
    if len(ours) == len(theirs) or len(our_content) == len(their_content):
        return True
    return asks_otherwise(map(word_id, our_content), map(word_id, their_content))


def _is_value(answer: str) -> bool:
    return not answer.replace(" ", "").isalpha()


def _has_same_steps(item: Problem, asked: Problem, shared: int) -> bool:
    """Test whether the question has the item's numbers in order, with perhaps a few more.

    Those are in one place, of a sentence that was added. Other steps of one short story fit as
    well: they are excluded by the content words that both must share.
    """
    ours = item.sequence if item.is_story else item.formula
    theirs = asked.sequence if item.is_story else asked.formula
    if not is_insertion(ours, theirs):
        return False
    return len(ours) == len(theirs) or shared >= _LEAST_SHARED


def is_insertion(ours: Sequence[int], theirs: Sequence[int]) -> bool:
    """Test whether `theirs` is `ours` with one run of elements put in at one place, or with none.

    >>> is_insertion([3, 4, 5], [3, 7, 8, 4, 5]), is_insertion([3, 4, 5], [3, 7, 4, 8, 5])
    (True, False)
    """
    added = len(theirs) - len(ours)
    if added < 0:
        return False
    for at in range(len(ours) + 1):
        if [*ours[:at], *theirs[at : at + added], *ours[at:]] == list(theirs):
            return True
    return False
