"""Settings of the built-in world, and the families of problems that they choose."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Annotated, Literal, TypeVar

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.worlds import sheets, stories
from dreamer_study.pipeline.worlds.in_words import steps_of
from dreamer_study.pipeline.worlds.planting import Edit
from dreamer_study.pipeline.worlds.sheets import HOPS, KINDS, MANY_KEYS, Sheet

Item = TypeVar("Item")
Several = Annotated[tuple[Item, ...], Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Pairs = Annotated[int, Field(ge=2, le=KINDS)]
RecallPairs = Annotated[int, Field(ge=2, le=len(MANY_KEYS))]
Count = Annotated[int, Field(ge=1)]
Modulus = Annotated[int, Field(ge=2, le=10)]
STORIES = "sums"


@dataclass(frozen=True, config=ConfigDict(use_attribute_docstrings=True))
class WorldSettings:
    """The settings of a world.

    Fractions are of the training rows; `leaked` is of each benchmark's items. `documents` counts
    all training rows, also those that curation should drop. `items` is the size of each benchmark
    and of the text split. `families` are the kinds of problems, in equal shares: `sums` are stories
    of `shortest` to `longest` steps, told of `nouns` names and as many things (none: all); the
    others are sheets (`sheets.py`) of `questions` questions: expressions of up to
    `operations` operations and tracking of up to `moves` numbers before a question, both modulo
    `modulus`, recall of `recall_pairs` pairs, chain of `chain_tables` of `chain_pairs`. Benchmarks
    depend only on `seed`, `items`, `families` and what the families are made of. Duplicates repeat
    clean rows. Rows of `traces` have a closed trace before the answer, rows of `unclosed` a trace
    without an end. Sheets have exact duplicates, leaks word for word and broken rows, but no
    traces.
    """

    seed: int = 0
    """Seed of all problems."""
    documents: Count = 50_000
    """Training rows, including those that curation should drop."""
    items: Count = 400
    """Items of each benchmark, and documents of the text benchmark."""
    families: Several[Literal["sums", "expressions", "recall", "chain", "tracking"]] = ("sums",)
    """Kinds of problems, in equal shares: sums are stories in words, the others are sheets of
    symbols.
    """
    shortest: Count = 1
    """Fewest steps of a story."""
    longest: int = 6
    """Most steps of a story."""
    nouns: Annotated[int, Field(ge=4, le=len(stories.THINGS))] | None = None
    """Names in the stories, and as many things; null: all."""
    questions: Count = 10
    """Questions on a sheet."""
    operations: Count = 4
    """Most operations of an expression."""
    modulus: Modulus = 5
    """Modulus of expressions and of tracking."""
    moves: Count = 6
    """Most numbers before a question of tracking."""
    recall_pairs: RecallPairs = 6
    """Pairs of key and value on a sheet of recall."""
    chain_pairs: Pairs = 5
    """Pairs in each table of a chain."""
    chain_tables: Annotated[int, Field(ge=2, le=len(HOPS))] = 2
    """Tables of a chain, which a question follows one after the other."""
    exact_duplicates: Share = 0.04
    """Share of the rows that repeat another row exactly."""
    near_duplicates: Share = 0.04
    """Share of the rows that repeat another row with an edit of `near_edits`."""
    number_variants: Share = 0.03
    """Share of the rows that repeat another problem with other numbers: no duplicates."""
    broken: Share = 0.01
    """Share of the rows without a response."""
    unclosed: Share = 0.02
    """Share of the rows with a reasoning trace that has no end."""
    traces: Share = 0.6
    """Share of the rows with a reasoning trace before the answer."""
    leaked: Share = 0.1
    """Share of each benchmark's items that also stand in the training rows."""
    near_edits: Several[Edit] = ("spacing", "case", "punctuation", "phrase", "word")
    """Edits that near duplicates are made with."""
    leak_edits: Several[Edit] = ("verbatim", "spacing", "case")
    """Edits that leaked items are made with."""

    @model_validator(mode="after")
    def _consistent(self) -> WorldSettings:
        if self.shortest > self.longest:
            raise InputError(f"shortest={self.shortest} is above longest={self.longest}")
        if len(set(self.families)) < len(self.families):
            raise InputError(
                f"families={list(self.families)}: name each family once; rows are divided evenly"
            )
        return self

    def steps(self, part: str = "all") -> range:
        """Return the numbers of steps of stories: all, or one half ("short", "long")."""
        return steps_of(self.shortest, self.longest, part)

    @property
    def sheets(self) -> dict[str, Callable[[Random], Sheet]]:
        """The functions that draw a sheet, of the families of sheets that the world has."""
        draw = {
            "expressions": partial(
                sheets.draw_expressions, operations=self.operations, modulus=self.modulus
            ),
            "recall": partial(sheets.draw_recall, pairs=self.recall_pairs),
            "chain": partial(sheets.draw_chain, pairs=self.chain_pairs, tables=self.chain_tables),
            "tracking": partial(sheets.draw_tracking, moves=self.moves, modulus=self.modulus),
        }
        return {
            name: partial(draw[name], questions=self.questions)
            for name in self.families
            if name in draw
        }

    @property
    def documents_of_stories(self) -> int:
        """How many of the documents are stories; the others are sheets."""
        if STORIES not in self.families:
            return 0
        return round(self.documents / len(self.families))
