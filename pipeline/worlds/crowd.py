"""Keep problems so dissimilar that no correct stage takes them for duplicates or for benchmark items."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from random import Random

from pipeline.errors import InputError
from pipeline.worlds.drawing import pick
from pipeline.worlds.problem import Family, Problem

COVERAGE = 0.4
TRIES = 10_000


class Crowd:
    """A set of problems that no correct stage takes for duplicates of each other or for benchmark items.

    Two problems of a crowd with equal numbers have a Jaccard similarity below 0.7 in word 5-grams (0.8 in 3-grams). No
    problem contains the fraction `COVERAGE` of the marks of a benchmark question (`Problem.marks`).
    """

    def __init__(self, benchmark: Iterable[Problem] = ()) -> None:
        self._count = 0
        self._by_key: dict[tuple, list[Problem]] = defaultdict(list)
        self._items: dict[tuple[str, ...], list[int]] = defaultdict(list)  # gram -> places in `_limits`
        self._limits: list[float] = []
        for problem in benchmark:
            for found in problem.marks():
                for gram in found:
                    self._items[gram].append(len(self._limits))
                self._limits.append(COVERAGE * len(found))

    def admit(self, problem: Problem) -> bool:
        """Add a problem, unless it is too similar to a problem of the crowd or to a benchmark question."""
        keys = problem.keys()
        alike = chain.from_iterable(self._by_key.get(key, ()) for key in keys)
        if any(problem.resembles(other) for other in alike) or self._covers_item(problem):
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
        held = frozenset().union(*problem.marks())
        hits = Counter(chain.from_iterable(self._items[gram] for gram in held & self._items.keys()))
        return any(count >= self._limits[place] for place, count in hits.items())
