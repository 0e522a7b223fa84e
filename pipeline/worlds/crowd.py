"""Keep problems so dissimilar that no correct stage takes them for duplicates or for benchmark items."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from random import Random

from pipeline.errors import InputError
from pipeline.worlds.problem import GRAM, Family, Problem, grams, pick

COVERAGE = 0.4
TRIES = 10_000


class Crowd:
    """A set of problems that no correct stage takes for duplicates of each other or for benchmark items.

    Two problems of a crowd with equal numbers have a Jaccard similarity below 0.7 in word 5-grams (0.8 in 3-grams). No
    problem contains the fraction `COVERAGE` of the marks of a benchmark question (`Problem.marks`).
    """

    def __init__(self, benchmark: Iterable[Problem] = ()) -> None:
        self._by_key: dict[tuple, list[Problem]] = defaultdict(list)
        self._enough: list[float] = []  # n-grams of each mark of the benchmark questions
        self._holders: dict[tuple, list[int]] = defaultdict(list)  # the marks that hold an n-gram
        for agreed, text in chain.from_iterable(problem.marks() for problem in benchmark):
            held = grams(text, GRAM)
            for gram in held:
                self._holders[agreed, gram].append(len(self._enough))
            self._enough.append(COVERAGE * len(held))

    def admit(self, problem: Problem) -> bool:
        """Add a problem, unless it is too similar to a problem of the crowd or to a benchmark question."""
        keys = problem.keys()
        if any(problem.resembles(self._by_key.get(key, ())) for key in keys) or self._covers_item(problem):
            return False
        for key in keys:
            self._by_key[key].append(problem)
        return True

    def draw(self, random: Random, family: Family) -> Problem:
        """Draw and add a problem of a family. Raises InputError when there is no room for more."""
        for _ in range(TRIES):
            problem = family.draw(random, pick(random, family.steps))
            if self.admit(problem):
                return problem
        raise InputError(
            f"the built-in world has no room for more different problems with {family.steps[0]} to {family.steps[-1]} "
            "steps in a family: ask for fewer documents or more steps"
        )

    def _covers_item(self, problem: Problem) -> bool:
        for agreed, text in problem.marks():
            common = Counter(chain.from_iterable(self._holders.get((agreed, gram), ()) for gram in grams(text, GRAM)))
            if any(count >= self._enough[mark] for mark, count in common.items()):
                return True
        return False
