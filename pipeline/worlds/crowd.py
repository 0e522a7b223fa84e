"""Keep problems so dissimilar that no correct stage takes them for duplicates or for benchmark items."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from itertools import chain
from random import Random

from pipeline.errors import InputError
from pipeline.worlds.drawing import pick
from pipeline.worlds.likeness import Sketch, grams
from pipeline.worlds.problem import GRAM, Family, Problem

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
        texts: dict[Hashable, list[frozenset]] = defaultdict(list)
        for agreed, text in chain.from_iterable(problem.marks() for problem in benchmark):
            texts[agreed].append(grams(text, GRAM))
        self._items = {agreed: Items(marks) for agreed, marks in texts.items()}

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
        return any(
            agreed in self._items and self._items[agreed].covered_by(grams(text, GRAM))
            for agreed, text in problem.marks()
        )


class Items:
    """Sets of n-grams of benchmark questions, to be searched for those of which a text holds `COVERAGE`.

    A text that holds `COVERAGE` of a set holds one of any of its n-grams that are too many to be all left out. The
    rarest so many are looked up: few questions have them.
    """

    def __init__(self, marks: list[frozenset]) -> None:
        often = Counter(chain.from_iterable(marks))
        self._least = [math.ceil(COVERAGE * len(found)) for found in marks]
        self._marks = marks
        self._sketches = [Sketch.of(found) for found in marks]
        self._places: dict[tuple[str, ...], list[int]] = defaultdict(list)  # of some n-grams, in `marks`
        for place, found in enumerate(marks):
            for gram in sorted(found, key=often.__getitem__)[: len(found) - self._least[place] + 1]:
                self._places[gram].append(place)

    def covered_by(self, held: frozenset) -> bool:
        """Test whether a text of the n-grams `held` holds `COVERAGE` of the n-grams of a question."""
        sketch = Sketch.of(held)
        return any(
            sketch.most_shared(self._sketches[place]) >= self._least[place]
            and len(held & self._marks[place]) >= self._least[place]
            for place in {place for gram in held & self._places.keys() for place in self._places[gram]}
        )
