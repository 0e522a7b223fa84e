"""Decide whether a stretch of a document is a copy of a passage.

Both are aligned word by word, and no number may be exchanged. An edited copy differs from the
passage in a few places. Another problem of like wording has other numbers, asks something else, or
continues in another way:

>>> import pyarrow as pa
>>> from dreamer_study.pipeline.text.number_words import read_numbers
>>> from dreamer_study.pipeline.text.words import text_column, word_blocks
>>> def parts(text):
...     return read_numbers(next(word_blocks(text_column(pa.array([text]))))[1])
>>> beginning = "Ann has 3 red pens and 4 blue cups in her bag, and Ben has none."
>>> item = parts(f"{beginning} How many has Ann?")
>>> target = Target(item.ids, item.kinds, last=4)
>>> def agrees(text):
...     words = parts(text)
...     return target.agrees(words, slice(0, len(words.ids)))
>>> agrees("Ann has 3 red pens and four blue caps in her bag, and Ben has none. How many has Ann?")
True
>>> agrees("Ann has 3 red pens and 5 blue cups in her bag, and Ben has none. How many has Ann?")
False
>>> agrees(f"{beginning} What fills one bag?")
False
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise, zip_longest
from typing import NamedTuple

import numpy as np

from dreamer_study.pipeline.text.arrays import bounds
from dreamer_study.pipeline.text.deciding_words import asks_otherwise
from dreamer_study.pipeline.text.ngrams import word_id
from dreamer_study.pipeline.text.number_words import NUMBER_WORDS, ONE
from dreamer_study.pipeline.text.words import LETTERS, NUMBER, SIGN, Words

_NUMBER_WORDS = frozenset([*map(word_id, NUMBER_WORDS), ONE])
# "a", "i", the "s" of "it's" and the "t" of "isn't" are words: ids of words show no apostrophe.
VARIABLES = frozenset(map(word_id, "bcdefghjklmnopqruvwxyz"))
_MINUS = word_id("-")
_SENTENCE_ENDS = np.isin(np.arange(256), list(b".?!:;\n"))
_LINE_BREAK = ord("\n")
_BLANK = ord(" ")
_DIGIT = np.isin(np.arange(256), list(b"0123456789"))

# docs/decontamination.md has these shares. The ninth is measured (benchmarks.truth.lookalikes):
# with a sixth, 90 of 3,000 clean problems counted as copies.
_LEAST_KEPT = 0.7  # of the passage's words
_MOST_EXCHANGED = 1 / 9  # of the passage's words
_FREE = 1  # word that may be exchanged in any passage
_MOST_LOST = 0.25  # of the passage's numbers; of two or three, one
_SENTENCE_KEPT = 0.75  # of the words of the last sentence, which asks
_RUN_EXCHANGED = 3  # words in a row of a passage without numbers


class Equal(NamedTuple):
    """A run of words that passage and stretch have in common: its places in both, its words."""

    at: int
    there: int
    size: int


class Gap(NamedTuple):
    """A gap between two runs: `start:stop` in the passage, `their_...` in the stretch."""

    start: int
    stop: int
    their_start: int
    their_stop: int


class Target:
    """Compare one passage with stretches of documents."""

    def __init__(
        self, ids: np.ndarray, kinds: np.ndarray, last: int, parts: Sequence[int] = ()
    ) -> None:
        """Take ids and kinds of the words, and the number of words of the last sentence.

        `parts` are the numbers of words of all sentences and lines. They are given for a passage
        without numbers: one of them may be all that distinguishes the passage from others, as a
        list of words before a long instruction.
        """
        self.ids = ids.tolist()
        self.kinds = kinds.tolist()
        self.length = len(ids)
        self.last = min(last, self.length)
        self.parts = list(pairwise(bounds(np.array(parts, np.int64)).tolist()))
        self.words = frozenset(self.ids)
        self.may_exchange = max(int(_MOST_EXCHANGED * self.length), _FREE)
        self.needed = Counter(self.ids[at] for at in np.flatnonzero(kinds == NUMBER).tolist())
        numbers = self.needed.total()
        self.may_lack = max(int(_MOST_LOST * numbers), 1) if numbers > 1 else 0

    def agrees(self, words: Words, stretch: slice, inside: slice | None = None) -> bool:
        """Test whether the stretch of a document's words holds a copy, perhaps a little edited.

        `inside` are the words of the document. It is given for passages that are too short for
        shares of their words (`Passage.is_copy`): then the copy has to be sentences of its own, and
        whole but for one word of letters, which may be exchanged throughout, as a name.
        """
        theirs = words.ids[stretch].tolist()
        may_exchange = self.may_exchange if inside is None else _FREE
        blocks = self._blocks(theirs, may_exchange)
        if not blocks:
            return False
        gaps = _gaps(blocks, self.length, len(theirs))
        # the first word of the last sentence; all of a short passage counts as asked
        asked = self.length - self.last if inside is None else 0
        if self._exchanged(gaps, theirs) > may_exchange:
            return False
        if self._contradicts(gaps, blocks, words, stretch, asked):
            return False
        if self._exchanges_a_part(gaps):
            return False
        if inside is None:
            return self._keeps_enough(blocks, gaps, asked)
        return self._differs_in_letters_only(
            gaps, words.kinds[stretch].tolist()
        ) and self._is_sentences(blocks, words, stretch, inside)

    def _blocks(self, theirs: list[int], may_exchange: int) -> list[Equal]:
        """Align with a stretch: the runs of equal words, in order.

        None where more words are missing than may be exchanged, or more numbers than may be lost.
        """
        # Only a shortcut, as counting is far faster than aligning: `_exchanged` counts these too.
        if len(self.words.difference(theirs)) > may_exchange:
            return []
        # A rule of its own: a few numbers may be lost. `_contradicts` forbids others instead.
        if (self.needed - Counter(theirs)).total() > self.may_lack:
            return []
        # The longest equal run first, then on both sides of it: not the fewest edits. `autojunk`
        # would leave out words that a long stretch has often, such as "the" and numbers.
        matcher = SequenceMatcher(None, self.ids, theirs, autojunk=False)
        blocks = [Equal(*block) for block in matcher.get_matching_blocks() if block.size]
        # The stretch is longer than the passage: an outer run that is farther from its neighbour
        # than it is long is there by chance.
        while len(blocks) > 1 and _distance(blocks[0], blocks[1]) > blocks[0].size:
            del blocks[0]
        while len(blocks) > 1 and _distance(blocks[-2], blocks[-1]) > blocks[-1].size:
            del blocks[-1]
        return blocks

    def _exchanged(self, gaps: list[Gap], theirs: list[int]) -> int:
        """Count the words exchanged, left out or added.

        A gap counts as the longer of its sides; (word, None) is a word left out. An exchange made
        throughout, as of a name, counts once: equal pairs are one.
        """
        pairs = set[tuple[int | None, int | None]]()
        for gap in gaps:
            ours = self.ids[gap.start : gap.stop]
            others = theirs[gap.their_start : gap.their_stop]
            pairs.update(zip_longest(ours, others))
        return len(pairs)

    def _keeps_enough(self, blocks: list[Equal], gaps: list[Gap], asked: int) -> bool:
        """Test whether enough words of the passage are kept, and of its last sentence."""
        kept = sum(block.size for block in blocks)
        lost_of_sentence = sum(max(gap.stop - max(gap.start, asked), 0) for gap in gaps)
        may_lose = max((1 - _SENTENCE_KEPT) * self.last, 1)
        return kept >= _LEAST_KEPT * self.length and lost_of_sentence <= may_lose

    def _exchanges_a_part(self, gaps: list[Gap]) -> bool:
        """Test whether most of a sentence or line is exchanged for other words.

        That is tested in passages without numbers. A part that is left out is an edit.
        """
        exchanged = [gap for gap in gaps if gap.their_stop > gap.their_start]
        for start, stop in self.parts:
            lost = sum(max(min(gap.stop, stop) - max(gap.start, start), 0) for gap in exchanged)
            if lost > max((1 - _SENTENCE_KEPT) * (stop - start), 1):
                return True
        runs = [min(gap.stop - gap.start, gap.their_stop - gap.their_start) for gap in exchanged]
        return bool(self.parts) and max(runs, default=0) > _RUN_EXCHANGED

    def _differs_in_letters_only(self, gaps: list[Gap], their_kinds: list[int]) -> bool:
        """Test that no number and no sign is exchanged, left out or added.

        `_contradicts` allows a number to be lost where none is gained, and a sign to be lost or
        added: too much in a short passage.
        """
        for gap in gaps:
            ours = self.kinds[gap.start : gap.stop]
            theirs = their_kinds[gap.their_start : gap.their_stop]
            if {*ours, *theirs} - {LETTERS}:
                return False
        return True

    def _is_sentences(
        self, blocks: list[Equal], words: Words, stretch: slice, inside: slice
    ) -> bool:
        """Test whether the copy begins and ends where sentences do.

        Words of the passage before the first equal run may have been left out, so that the copy
        begins with this run, or exchanged, so that it begins as many words earlier; likewise its
        end.
        """
        first = blocks[0]
        last = blocks[-1]
        begin = stretch.start + first.there
        end = stretch.start + last.there + last.size
        missing_at_end = self.length - last.at - last.size
        for start in {begin, begin - first.at}:
            for stop in {end, end + missing_at_end}:
                fits = inside.start <= start and stop <= inside.stop
                if fits and stands_alone(words, start, stop, inside):
                    return True
        return False

    def _contradicts(
        self,
        gaps: list[Gap],
        blocks: list[Equal],
        words: Words,
        stretch: slice,
        asked: int,
    ) -> bool:
        """Test whether a number, a variable, a sign or a deciding word is another one.

        A number is another one as well where one is lost in one place and one is added in another.
        """
        ids = words.ids[stretch].tolist()
        kinds = words.kinds[stretch].tolist()
        # Numbers in digits: in `kinds`, number words are NUMBER too.
        digits = _DIGIT[words.text[words.starts[stretch]]].tolist()
        lost = gained = False
        for gap in gaps:
            there = slice(gap.their_start, gap.their_stop)
            ours = self.ids[gap.start : gap.stop]
            our_kinds = self.kinds[gap.start : gap.stop]
            has_number = NUMBER in our_kinds or not _NUMBER_WORDS.isdisjoint(ours)
            lost |= has_number
            gained |= NUMBER in kinds[there] or not _NUMBER_WORDS.isdisjoint(ids[there])
            # A number in digits makes another problem, also where nothing was; a number word may be
            # added ("the first of", "both halves"), unless a number is lost elsewhere.
            if any(digits[there]) or (SIGN in our_kinds and SIGN in kinds[there]):
                return True
            if self._varies(gap, ids[there], has_number, asked) or asks_otherwise(ours, ids[there]):
                return True
        gained |= self._touches_a_number(blocks, words, stretch)
        return (lost and gained) or self._changes_a_sign(blocks, ids)

    def _touches_a_number(self, blocks: list[Equal], words: Words, stretch: slice) -> bool:
        """Test whether a number in digits stands at the copy, within its sentence.

        Of "(9, 4)" and "(4, 4)" the last 4 of the passage is equal to the first 4 there.
        """
        first = stretch.start + blocks[0].there
        last = stretch.start + blocks[-1].there + blocks[-1].size - 1
        neighbours = [(first - 1, first), (last, last + 1)]
        for before, after in neighbours:
            beside = before if after == first else after
            if not stretch.start <= beside < stretch.stop:
                continue
            between = words.text[words.ends[before] : words.starts[after]]
            is_digit = _DIGIT[words.text[words.starts[beside]]]
            if is_digit and not _SENTENCE_ENDS[between].any():
                return True
        return False

    def _varies(self, gap: Gap, theirs: list[int], has_number: bool, asked: int) -> bool:
        """Test whether another variable is asked for.

        No variable may replace a number, or come into the last sentence, and none of the last
        sentence may be lost. Elsewhere a renamed variable is an exchange like any other.
        """
        ours = self.ids[gap.start : gap.stop]
        comes_in = VARIABLES.isdisjoint(ours) and not VARIABLES.isdisjoint(theirs)
        if comes_in and (has_number or gap.stop > asked):
            return True
        return not VARIABLES.isdisjoint(self.ids[max(gap.start, asked) : gap.stop])

    def _changes_a_sign(self, blocks: list[Equal], theirs: list[int]) -> bool:
        """Test whether an equal number is negative on one side only."""
        for block in blocks:
            for at, there in zip(
                range(block.at, block.at + block.size),
                range(block.there, block.there + block.size),
                strict=True,
            ):
                is_number = self.kinds[at] == NUMBER
                if is_number and _is_negative(self.ids, at) != _is_negative(theirs, there):
                    return True
        return False


def stands_alone(words: Words, start: int, stop: int, inside: slice) -> bool:
    """Test whether the words `start:stop` of a document begin and end where a sentence does."""
    return _parts_sentences(words, start, inside) and _parts_sentences(words, stop, inside)


def _parts_sentences(words: Words, at: int, inside: slice) -> bool:
    """Test whether a sentence ends before the word `at`: a mark lies between the words.

    A bullet or quotation mark at the beginning of a line, "- " or "> ", is no word of a sentence.
    """
    if at in (inside.start, inside.stop):
        return True
    start = words.starts[at - 1]
    if words.kinds[at - 1] == SIGN and words.text[start - 1] == _LINE_BREAK:
        return bool(words.text[start + 1] == _BLANK)
    between = words.text[words.ends[at - 1] : words.starts[at]]
    return bool(_SENTENCE_ENDS[between].any())


def _is_negative(ids: list[int], at: int) -> bool:
    return at > 0 and ids[at - 1] == _MINUS


def _distance(block: Equal, after: Equal) -> int:
    """Count the words of the stretch between two runs."""
    return after.there - block.there - block.size


def _gaps(blocks: list[Equal], length: int, stop: int) -> list[Gap]:
    """List the gaps before, between and after the runs.

    The stretch holds text beside the copy: to words of the passage that are missing at its
    beginning correspond as many words of the stretch, not all before the first run; likewise at
    the end.
    """
    first = blocks[0]
    last = blocks[-1]
    end = last.at + last.size
    their_end = last.there + last.size
    inner = [
        Gap(block.at + block.size, after.at, block.there + block.size, after.there)
        for block, after in pairwise(blocks)
    ]
    return [
        Gap(0, first.at, max(first.there - first.at, 0), first.there),
        *inner,
        Gap(end, length, their_end, min(their_end + length - end, stop)),
    ]
