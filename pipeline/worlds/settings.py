"""Settings of the built-in world, and the families of problems that they choose."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pipeline.errors import InputError
from pipeline.worlds import relations, sums, swaps
from pipeline.worlds.planting import EDITS
from pipeline.worlds.problem import Family

FAMILIES = ("sums", "relations", "swaps")
MOST_STEPS = 24  # of sums: a question of so many has at most 126 n-grams, and `pipeline.worlds.crowd` counts below 128


@dataclass(frozen=True)
class WorldSettings:
    """The settings of a world. Fractions are of the training rows; `leaked` is of each benchmark's items.

    `documents` counts all training rows, also those that curation should drop. `items` is the size of each benchmark
    and of the validation split. `families` are the kinds of problems, in equal shares: sums have `shortest` to
    `longest` steps, relations 1 to `hops` beside up to `distractors`, swaps 1 to `swaps`. `nouns` is the number of
    names, and of things, that sums are told of (none: all). Benchmarks depend only on `seed`, `items`, `families` and
    what the families are made of. Duplicates repeat clean rows. Rows of `traces` have a closed trace before the answer,
    rows of `unclosed` a trace without an end. Raises InputError for values out of range.
    """

    seed: int = 0
    documents: int = 50_000
    items: int = 400
    families: tuple[str, ...] = ("sums",)
    shortest: int = 1
    longest: int = 6
    nouns: int | None = None
    hops: int = 3
    distractors: int = 1
    swaps: int = 3
    exact_duplicates: float = 0.04
    near_duplicates: float = 0.04
    number_variants: float = 0.03
    broken: float = 0.01
    unclosed: float = 0.02
    traces: float = 0.6
    leaked: float = 0.1
    near_edits: tuple[str, ...] = ("spacing", "case", "punctuation", "phrase", "word")
    leak_edits: tuple[str, ...] = ("verbatim", "spacing", "case")

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest <= MOST_STEPS:
            wanted = f"need 1 <= shortest <= longest <= {MOST_STEPS}"
            raise InputError(f"world: shortest={self.shortest}, longest={self.longest}: {wanted}")
        if self.nouns is not None and not 4 <= self.nouns <= len(sums.THINGS):
            raise InputError(f"world: nouns={self.nouns}: need 4 to {len(sums.THINGS)}, or none for all")
        most = len(relations.NAMES) - 2  # one person more than statements, and one whom an edit can put in
        if not (self.hops >= 1 and self.distractors >= 0 and self.hops + self.distractors <= most):
            raise InputError(
                f"world: hops={self.hops}, distractors={self.distractors}: need at least 1 and 0, together at most "
                f"{most}, as there are {len(relations.NAMES)} names"
            )
        if not 1 <= self.swaps < len(swaps.NAMES):
            raise InputError(f"world: swaps={self.swaps}: need 1 to {len(swaps.NAMES) - 1}")
        for name in ("documents", "items"):
            if getattr(self, name) < 1:
                raise InputError(f"world: {name}={getattr(self, name)}: need at least 1")
        shares = ("exact_duplicates", "near_duplicates", "number_variants", "broken", "unclosed", "traces", "leaked")
        for name in shares:
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"world: {name}={getattr(self, name)}: a share lies between 0 and 1")
        for name, known in (("families", FAMILIES), ("near_edits", EDITS), ("leak_edits", EDITS)):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            if not getattr(self, name) or set(getattr(self, name)) - set(known):
                raise InputError(f"world: {name}={list(getattr(self, name))}: choose from {', '.join(known)}")
        if len(set(self.families)) < len(self.families):
            raise InputError(f"world: families={list(self.families)}: name each family once; rows are divided evenly")

    def family(self, name: str, part: str = "all") -> Family:
        """Return a family with its numbers of steps: all, the shorter half ("short") or the longer half ("long")."""
        draw, first, last = {
            "sums": (partial(sums.draw, nouns=self.nouns), self.shortest, self.longest),
            "relations": (partial(relations.draw, distractors=self.distractors), 1, self.hops),
            "swaps": (swaps.draw, 1, self.swaps),
        }[name]
        middle = (first + last) // 2
        if part == "short":
            last = middle
        elif part == "long":
            first = min(middle + 1, last)
        return Family(draw, range(first, last + 1))
