"""Settings of decontamination, and the grades in which an item is found in a document."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from dreamer_study.pipeline.errors import InputError

Grade = Literal[
    "exact",
    "overlap",
    "solution",
    "rephrased",
    "rephrased_formula",
    "rephrased_loosely",
    "template",
]
EXACT, OVERLAP, SOLUTION, REPHRASED, FORMULA, LOOSELY, TEMPLATE = GRADES = get_args(Grade)
LEAKS = (EXACT, OVERLAP, SOLUTION, REPHRASED)  # grades of documents that give an item away
Share = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True, config=ConfigDict(use_attribute_docstrings=True))
class DecontaminationSettings:
    """Define when a document counts as containing a benchmark item.

    `remove` names the grades to drop documents for:

    * exact: word for word;
    * overlap: an edited copy, whose numbers are all the item's; of an item of more than
      `many_words` words, `long_coverage` of the n-grams of `long_words` words;
    * solution: the item's worked solution, exact or edited;
    * rephrased: a word problem in other words, by its numbers, its final answer and half of its
      words; rephrased_formula: as much of any other problem; rephrased_loosely: a word problem
      that shares fewer words with the item;
    * template: `template_coverage` of the n-grams of `short_words` words with numbers masked, and
      no copy.

    All but exact need the item's numbers, or `particular_coverage` of the masked n-grams among
    those that at most `common_share` of a sample of `sample` documents hold (or at most
    `common_documents`). Items of fewer than `few_words` words match as sentences of their own with
    at most one word exchanged, of fewer than `shortest` with none, of fewer than `short_words` as
    the whole question. Answers and solutions are searched from `shortest_answer` words on.
    """

    remove: tuple[Grade, ...] = LEAKS
    """Grades of findings for which a document is dropped; other grades are only counted."""
    short_words: int = 5
    """Words of a short n-gram, which grade `template` and short items are compared by."""
    long_words: int = 8
    """Words of a long n-gram, which items of more than `many_words` words are compared by."""
    long_coverage: Share = 0.3
    """Share of a long item's n-grams that a document must hold to be an edited copy."""
    template_coverage: Share = 0.6
    """Share of the short n-grams with masked numbers that a document must hold to be of the item's
    template.
    """
    particular_coverage: Share = 0.25
    """Share of the masked n-grams that are rare in the corpus, needed where the item's numbers are
    missing.
    """
    shortest: int = 8
    """Items of fewer words match as whole sentences only, word for word."""
    few_words: int = 15
    """Items of fewer words match as whole sentences only, with at most one word exchanged."""
    shortest_answer: int = 16
    """Fewest words of an answer or solution that is searched for."""
    many_words: int = 200
    """Items of more words are compared by long n-grams."""
    sample: int = 20_000
    """Documents of the sample in which n-grams are counted, to find the common ones."""
    common_share: Share = 0.001
    """Largest share of the sample's documents that may hold an n-gram that counts as rare."""
    common_documents: int = 20
    """Largest number of the sample's documents that may hold an n-gram that counts as rare, where
    that is more than `common_share`.
    """

    def __post_init__(self) -> None:
        """Check that the sizes rise. Raises InputError, a ValueError."""
        rising = (
            "short_words",
            "long_words",
            "shortest",
            "few_words",
            "shortest_answer",
            "many_words",
        )
        sizes = [getattr(self, name) for name in rising]
        if sizes != sorted(sizes) or sizes[0] < 1:
            named = ", ".join(f"{name}={getattr(self, name)}" for name in rising)
            raise InputError(
                f"decontaminate: {named}: each has to be at least 1 and at least the one before"
            )
