"""Name the words that decide what a problem asks: one exchanged for another makes another problem.

>>> def other(ours, theirs):
...     return asks_otherwise(map(word_id, ours.split()), map(word_id, theirs.split()))
>>> other("the sum", "the product"), other("may", "may not")
(True, True)
>>> other("the greatest", "our largest"), other("sum", "one")
(False, False)
"""

from __future__ import annotations

from collections.abc import Iterable

from dreamer_study.pipeline.text.ngrams import word_id

_WORDS = """
not never cannot don doesn didn isn aren|sin sine|cos cosine|tan tangent|cot|sec|csc|arcsin asin
arccos acos|arctan atan|sinh|cosh|tanh|log ln|exp|sqrt|gcd gcf|lcm|sum|product|difference|quotient
remainder|ratio|domain|range|numerator
max maximum maximal greatest largest biggest highest longest
min minimum minimal least smallest lowest shortest fewest|area|perimeter circumference|volume
radius|diameter|length|width|height|parallel|perpendicular|vertical|horizontal
distinguishable distinct different|indistinguishable identical|labeled labelled
unlabeled unlabelled|with|without|first|even|odd|positive|negative|prime|composite|rational
irrational|increase increasing increased|gains gained|loses lost|decrease decreasing decreased
more greater larger|less fewer smaller|before|after|inside|outside|above|below|last|union
intersection|older taller|younger shorter|including inclusive|excluding exclusive|clockwise
counterclockwise|denominator|mean average|median|mode|north northern|south southern|east eastern
west western|northeast|northwest|southeast|southwest|left|right|true|false
"""
_GROUPS = [group.split() for group in _WORDS.strip().replace("\n", "|").split("|")]
# By the id of a word, the id of the first word of those alike.
DECIDING = {word_id(word): word_id(group[0]) for group in _GROUPS for word in group}
_NOT = word_id("not")


def asks_otherwise(ours: Iterable[int], theirs: Iterable[int]) -> bool:
    """Test whether words are replaced by others that ask for something else.

    A deciding word that is left out or added is an edit, but for "not".
    """
    before = {DECIDING[word] for word in ours if word in DECIDING}
    after = {DECIDING[word] for word in theirs if word in DECIDING}
    if before == after:
        return False
    return bool(before and after) or _NOT in before ^ after
