"""Settings of decontamination, and the grades in which an item is found in a document."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field
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
Share = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
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

    remove: tuple[Grade, ...] = (EXACT, OVERLAP, SOLUTION, REPHRASED)
    short_words: int = 5
    long_words: int = 8
    long_coverage: Share = 0.3
    template_coverage: Share = 0.6
    particular_coverage: Share = 0.25
    shortest: int = 8
    few_words: int = 15
    shortest_answer: int = 16
    many_words: int = 200
    sample: int = 20_000
    common_share: Share = 0.001
    common_documents: int = 20

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
