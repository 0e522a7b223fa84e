"""Decide whether a stretch of a document is a copy of a passage: aligned word by word, with no
number exchanged.

An edited copy differs from the passage in a few places. Another problem of like wording has other
numbers, asks something else, or goes on in another way:

>>> import pyarrow as pa
>>> from dreamer_study.pipeline.text.number_words import read_numbers
>>> from dreamer_study.pipeline.text.words import text_column, word_blocks
>>> def parts(text):
...     return read_numbers(next(word_blocks(text_column(pa.array([text]))))[1])
>>> item = parts("Ann has 3 red pens and 4 blue cups in her bag, and Ben has none. How many has Ann?")
>>> target = Target(item.ids, item.kinds, last=4)
>>> def agrees(text):
...     words = parts(text)
...     return target.agrees(words, slice(0, len(words.ids)))
>>> agrees("Ann has 3 red pens and four blue caps in her bag, and Ben has none. How many has Ann?")
True
>>> agrees("Ann has 3 red pens and 5 blue cups in her bag, and Ben has none. How many has Ann?")
False
>>> agrees("Ann has 3 red pens and 4 blue cups in her bag, and Ben has none. What fills one bag?")
False
"""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from itertools import pairwise, zip_longest

import numpy as np

from dreamer_study.pipeline.text.deciding_words import asks_otherwise
from dreamer_study.pipeline.text.ngrams import word_id
from dreamer_study.pipeline.text.number_words import NUMBER_WORDS, ONE
from dreamer_study.pipeline.text.words import LETTERS, NUMBER, SIGN, Words

_NUMBER_WORDS = frozenset([*map(word_id, NUMBER_WORDS), ONE])
VARIABLES = frozenset(
    map(word_id, "bcdefghjklmnopqruvwxyz")
)  # "a", "i", the "s" of "it's", the "t" of "isn't" are words
_MINUS = word_id("-")
_SENTENCE_ENDS = np.isin(np.arange(256), list(b".?!:;\n"))
_DIGIT = np.isin(np.arange(256), list(b"0123456789"))
_LEAST_KEPT = 0.7  # of the passage's words
_MOST_EXCHANGED = 1 / 9  # of the passage's words
_FREE = 1  # word that may be exchanged in any passage
_MOST_LOST = 0.25  # of the passage's numbers, where other words stand in their place
_SENTENCE_KEPT = 0.75  # of the words of the last sentence, which asks
Gap = tuple[int, int, int, int]  # starts and stops in the passage and in the stretch


class Target:
    """Compare one passage with stretches of documents."""

    def __init__(self, ids: np.ndarray, kinds: np.ndarray, last: int) -> None:
        """Take ids and kinds of the words, and the number of words of the last sentence, which
        asks."""
        self.ids, self.kinds, self.length = ids.tolist(), kinds.tolist(), len(ids)
        self.last = min(last, self.length)
        self.words, self.may_exchange = (
            frozenset(self.ids),
            max(int(_MOST_EXCHANGED * self.length), _FREE),
        )
        self.needed = Counter(self.ids[at] for at in np.flatnonzero(kinds == NUMBER).tolist())
        numbers = self.needed.total()
        self.may_lack = max(int(_MOST_LOST * numbers), 1) if numbers > 1 else 0

    def agrees(self, words: Words, stretch: slice, inside: slice | None = None) -> bool:
        """Test whether the stretch of a document's words holds a copy, perhaps with some words
        exchanged.

        Given the words `inside` which the document lies, the copy has to be sentences of its own,
        and whole but for a word of letters, which may stand in several places.
        """
        theirs = words.ids[stretch].tolist()
        may_exchange = self.may_exchange if inside is None else _FREE
        blocks = self._blocks(theirs, may_exchange)
        if not blocks:
            return False
        gaps = _gaps(blocks, self.length, len(theirs))
        asked = self.length - self.last if inside is None else 0
        if self._exchanged(gaps, theirs) > may_exchange or self._contradicts(
            gaps, blocks, words, stretch, asked
        ):
            return False
        if inside is None:
            kept = sum(size for _, _, size in blocks)
            lost = sum(max(stop - max(start, asked), 0) for start, stop, _, _ in gaps)
            return kept >= _LEAST_KEPT * self.length and lost <= max(
                (1 - _SENTENCE_KEPT) * self.last, 1
            )
        kinds = words.kinds[stretch].tolist()
        if any(
            {*self.kinds[a:a_stop], *kinds[b:b_stop]} - {LETTERS} for a, a_stop, b, b_stop in gaps
        ):
            return False
        (first, begin, _), (last, end, size) = blocks[0], blocks[-1]
        return any(
            stands_alone(words, start, stop, inside)
            for start in {stretch.start + begin, stretch.start + begin - first}
            for stop in {stretch.start + end + size, stretch.start + end + self.length - last}
            if inside.start <= start and stop <= inside.stop
        )

    def _exchanged(self, gaps: list[Gap], theirs: list[int]) -> int:
        """Count the words exchanged, left out or added; an exchange made throughout, as of a name,
        counts once."""
        pairs = set[tuple[int | None, int | None]]()
        for at, stop, there, end in gaps:
            ours, other = self.ids[at:stop], theirs[there:end]
            pairs.update(zip_longest(ours, other))
        return len(pairs)

    def _blocks(self, theirs: list[int], may_exchange: int) -> list[tuple[int, int, int]]:
        """Align with a stretch: equal blocks (place here, place there, words).

        Returns no block where numbers are missing, or where more words are missing than may be
        exchanged: aligning takes far longer than counting.
        """
        if (
            len(self.words.difference(theirs)) > may_exchange
            or (self.needed - Counter(theirs)).total() > self.may_lack
        ):
            return []
        matcher = SequenceMatcher(None, self.ids, theirs, autojunk=False)
        blocks = [
            (block.a, block.b, block.size) for block in matcher.get_matching_blocks() if block.size
        ]
        while len(blocks) > 1 and blocks[1][1] - blocks[0][1] - blocks[0][2] > blocks[0][2]:
            del blocks[0]  # a word that stands far before the copy by chance
        while len(blocks) > 1 and blocks[-1][1] - blocks[-2][1] - blocks[-2][2] > blocks[-1][2]:
            del blocks[-1]
        return blocks

    def _contradicts(
        self,
        gaps: list[Gap],
        blocks: list[tuple[int, int, int]],
        words: Words,
        stretch: slice,
        asked: int,
    ) -> bool:
        """Test whether a number, sign or word that decides is another one, or a variable from the
        word `asked` on.

        A number is another one as well where one is lost in one place and one is added in another.
        """
        ids, kinds = words.ids[stretch].tolist(), words.kinds[stretch].tolist()
        digits = _DIGIT[words.text[words.starts[stretch]]].tolist()
        lost = gained = False
        for start, stop, their, their_stop in gaps:
            mine, instead = self.ids[start:stop], ids[their:their_stop]
            ours, other = self.kinds[start:stop], kinds[their:their_stop]
            numbered = NUMBER in ours or not _NUMBER_WORDS.isdisjoint(mine)
            lost |= numbered
            gained |= NUMBER in other or not _NUMBER_WORDS.isdisjoint(instead)
            varied = (
                VARIABLES.isdisjoint(mine)
                and not VARIABLES.isdisjoint(instead)
                and (numbered or stop > asked)
            )
            if (
                varied
                or not VARIABLES.isdisjoint(self.ids[max(start, asked) : stop])
                or asks_otherwise(mine, instead)
            ):
                return True
            if any(digits[their:their_stop]) or (SIGN in ours and SIGN in other):
                return True
        return (lost and gained) or any(
            _is_negative(self.ids, at + k) != _is_negative(ids, there + k)
            for at, there, size in blocks
            for k in range(size)
            if self.kinds[at + k] == NUMBER
        )


def stands_alone(words: Words, start: int, stop: int, inside: slice) -> bool:
    """Test whether the words `start:stop` of a document begin and end where a sentence does."""
    text = words.text
    before = (
        start == inside.start
        or _SENTENCE_ENDS[text[words.ends[start - 1] : words.starts[start]]].any()
    )
    return before and (
        stop == inside.stop or _SENTENCE_ENDS[text[words.ends[stop - 1] : words.starts[stop]]].any()
    )


def _is_negative(ids: list[int], at: int) -> bool:
    return at > 0 and ids[at - 1] == _MINUS


def _gaps(blocks: list[tuple[int, int, int]], length: int, stop: int) -> list[Gap]:
    """List what lies between the blocks, first and last what stands for the passage's words before
    and after them."""
    (first, begin, _), (last, end, size) = blocks[0], blocks[-1]
    inner = [
        (at + n, after, there + n, beyond)
        for (at, there, n), (after, beyond, _) in pairwise(blocks)
    ]
    missing = length - last - size
    return [
        (0, first, max(begin - first, 0), begin),
        *inner,
        (last + size, length, end + size, min(end + size + missing, stop)),
    ]
