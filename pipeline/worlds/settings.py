"""Settings of the built-in world, and the families of problems that they choose."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal, TypeVar

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from pipeline.errors import InputError
from pipeline.worlds import relations, sums, swaps
from pipeline.worlds.planting import Edit
from pipeline.worlds.problem import NAMES, Family

Item = TypeVar("Item")
Several = Annotated[tuple[Item, ...], Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class WorldSettings:
    """The settings of a world. Fractions are of the training rows; `leaked` is of each benchmark's items.

    `documents` counts all training rows, also those that curation should drop. `items` is the size of each benchmark
    and of the validation split. `families` are the kinds of problems, in equal shares: sums have `shortest` to
    `longest` steps, relations 1 to `hops` beside up to `distractors`, swaps 1 to `swaps`. `nouns` is the number of
    names, and of things, that sums are told of (none: all). Benchmarks depend only on `seed`, `items`, `families` and
    what the families are made of. Duplicates repeat clean rows. Rows of `traces` have a closed trace before the answer,
    rows of `unclosed` a trace without an end.
    """

    seed: int = 0
    documents: Annotated[int, Field(ge=1)] = 50_000
    items: Annotated[int, Field(ge=1)] = 400
    families: Several[Literal["sums", "relations", "swaps"]] = ("sums",)
    shortest: Annotated[int, Field(ge=1)] = 1
    longest: int = 6
    nouns: Annotated[int, Field(ge=4, le=len(sums.THINGS))] | None = None
    hops: Annotated[int, Field(ge=1)] = 3
    distractors: Annotated[int, Field(ge=0)] = 1
    swaps: Annotated[int, Field(ge=1, lt=len(NAMES))] = 3
    exact_duplicates: Share = 0.04
    near_duplicates: Share = 0.04
    number_variants: Share = 0.03
    broken: Share = 0.01
    unclosed: Share = 0.02
    traces: Share = 0.6
    leaked: Share = 0.1
    near_edits: Several[Edit] = ("spacing", "case", "punctuation", "phrase", "word")
    leak_edits: Several[Edit] = ("verbatim", "spacing", "case")

    @model_validator(mode="after")
    def _consistent(self) -> WorldSettings:
        if self.shortest > self.longest:
            raise InputError(f"shortest={self.shortest} is above longest={self.longest}")
        most = len(NAMES) - 2  # one person more than statements, and one whom an edit can put in
        if self.hops + self.distractors > most:
            raise InputError(f"hops={self.hops}, distractors={self.distractors}: give together at most {most}")
        if len(set(self.families)) < len(self.families):
            raise InputError(f"families={list(self.families)}: name each family once; rows are divided evenly")
        return self

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
