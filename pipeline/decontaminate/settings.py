"""Settings of decontamination, and the grades in which an item is found in a document."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import InputError

EXACT, OVERLAP, TEMPLATE = GRADES = ("exact", "overlap", "template")


@dataclass(frozen=True)
class DecontaminationSettings:
    """Define when a document counts as containing a benchmark item. Raises InputError for values without sense.

    `remove` names the grades to drop documents for. Grade overlap: the document covers `long_coverage` of the item's
    n-grams of `long_words` words or `short_coverage` of those of `short_words`, and of the item's numbers with equal
    neighbours at least `numbers_kept` are equal. Grade template: as much but for the numbers, or `template_coverage` of
    the short n-grams with numbers masked. Both need `particular_coverage` of the masked short n-grams among those that
    at most `common_share` of a sample of `sample` documents hold (or at most `common_documents`). Items of fewer than
    `shortest` words match only as the whole question; answers are searched from `shortest_answer` words on.
    """

    remove: tuple[str, ...] = (EXACT, OVERLAP)
    long_words: int = 8
    long_coverage: float = 0.3
    short_words: int = 5
    short_coverage: float = 0.35
    template_coverage: float = 0.6
    particular_coverage: float = 0.25
    numbers_kept: float = 0.5
    shortest: int = 8
    shortest_answer: int = 16
    sample: int = 20_000
    common_share: float = 0.001
    common_documents: int = 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "remove", tuple(self.remove))
        if not set(self.remove) <= set(GRADES):
            raise InputError(f"decontaminate: remove={list(self.remove)}: choose from {', '.join(GRADES)}")
        if not 1 <= self.short_words <= self.long_words <= self.shortest <= self.shortest_answer:
            raise InputError(
                f"decontaminate: short_words={self.short_words}, long_words={self.long_words}, "
                f"shortest={self.shortest}, shortest_answer={self.shortest_answer}: each has to be at least 1 and at "
                "least the one before"
            )
        shares = ("long_coverage", "short_coverage", "template_coverage", "particular_coverage", "numbers_kept")
        for name in (*shares, "common_share"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"decontaminate: {name}={getattr(self, name)}: need 0 < {name} <= 1")
