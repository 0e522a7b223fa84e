"""Keep problems so dissimilar that no correct stage takes them for duplicates or for benchmark items."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable
from itertools import chain
from random import Random

from pipeline.errors import InputError
from pipeline.worlds.drawing import pick
from pipeline.worlds.likeness import grams
from pipeline.worlds.problem import GRAM, Family, Problem

COVERAGE = 0.4
TRIES = 10_000
BLOCK = 512  # benchmark questions that are counted at once


class Crowd:
    """A set of problems that no correct stage takes for duplicates of each other or for benchmark items.

    Two problems of a crowd with equal numbers have a Jaccard similarity below 0.7 in word 5-grams (0.8 in 3-grams). No
    problem contains the fraction `COVERAGE` of the marks of a benchmark question (`Problem.marks`).
    """

    def __init__(self, benchmark: Iterable[Problem] = ()) -> None:
        self._count = 0
        self._by_key: dict[tuple, list[Problem]] = defaultdict(list)
        texts: dict[Hashable, list[frozenset]] = defaultdict(list)
        for agreed, text in chain.from_iterable(problem.marks() for problem in benchmark):
            texts[agreed].append(grams(text, GRAM))
        self._items = {
            agreed: [Items(marks[first : first + BLOCK]) for first in range(0, len(marks), BLOCK)]
            for agreed, marks in texts.items()
        }

    def admit(self, problem: Problem) -> bool:
        """Add a problem, unless it is too similar to a problem of the crowd or to a benchmark question."""
        keys = problem.keys()
        if any(problem.resembles(self._by_key.get(key, ())) for key in keys) or self._covers_item(problem):
            return False
        for key in keys:
            self._by_key[key].append(problem)
        self._count += 1
        return True

    def draw(self, random: Random, family: Family) -> Problem:
        """Draw and add a problem of a family. Raises InputError when there is no room for more."""
        for _ in range(TRIES):
            problem = family.draw(random, pick(random, family.steps))
            if self.admit(problem):
                return problem
        raise InputError(
            f"the built-in world has no room for more than {self._count} different problems with {family.steps[0]} to "
            f"{family.steps[-1]} steps in a family: ask for fewer documents or more steps"
        )

    def _covers_item(self, problem: Problem) -> bool:
        for agreed, text in problem.marks():
            if items := self._items.get(agreed):
                held = grams(text, GRAM)
                if any(block.covered_by(held) for block in items):
                    return True
        return False


class Items:
    """Sets of n-grams of benchmark questions, to be asked whether a text holds `COVERAGE` of a set.

    One byte of a long integer counts for one question, so that one addition counts an n-gram for all questions. A byte
    begins as far below 128 as n-grams of the question are needed.
    """

    def __init__(self, marks: list[frozenset]) -> None:
        assert all(0 < len(found) < 128 for found in marks)
        self._ones: dict[tuple[str, ...], int] = defaultdict(int)  # of an n-gram: 1 in the byte of each question
        self._start = 0
        for place, found in enumerate(marks):
            self._start |= 128 - math.ceil(COVERAGE * len(found)) << 8 * place
            for gram in found:
                self._ones[gram] |= 1 << 8 * place
        self._enough = int.from_bytes(b"\x80" * len(marks))

    def covered_by(self, held: frozenset) -> bool:
        """Test whether a text of the n-grams `held` holds enough of those of one question."""
        return sum(filter(None, map(self._ones.get, held)), self._start) & self._enough != 0
