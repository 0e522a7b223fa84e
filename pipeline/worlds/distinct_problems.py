"""Keep stories so dissimilar that no correct stage drops them.

None is taken for a duplicate or for a benchmark item.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from random import Random

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.worlds.drawing import GRAM, grams, pick
from dreamer_study.pipeline.worlds.stories import Story, draw

COVERAGE = 0.4
TRIES = 10_000


class Crowd:
    """A set of stories of which no correct stage drops any.

    No two stories of a crowd have a key in common (`Story.keys`), and no story contains the
    fraction `COVERAGE` of the marks of a benchmark question (`Story.marks`).
    """

    def __init__(self, benchmark: Iterable[Story] = ()) -> None:
        self._keys: set[tuple] = set()
        self._enough: list[float] = []  # n-grams of each mark of the benchmark questions
        self._holders: dict[tuple, list[int]] = defaultdict(list)  # the marks that hold an n-gram
        for agreed, text in chain.from_iterable(story.marks() for story in benchmark):
            held = grams(text, GRAM)
            for gram in held:
                self._holders[agreed, gram].append(len(self._enough))
            self._enough.append(COVERAGE * len(held))

    def admit(self, story: Story) -> bool:
        """Add a story, unless it is too similar to one of the crowd or to a benchmark question."""
        keys = story.keys()
        if not self._keys.isdisjoint(keys) or self._covers_item(story):
            return False
        self._keys.update(keys)
        return True

    def draw(self, random: Random, steps: range, nouns: int | None = None) -> Story:
        """Draw and add a story; its number of steps is drawn from `steps`.

        Raises InputError when there is no room for more.
        """
        for _ in range(TRIES):
            story = draw(random, pick(random, steps), nouns)
            if self.admit(story):
                return story
        raise InputError(
            f"the built-in world has no room for more different stories of {steps[0]} to"
            f" {steps[-1]} steps: ask for fewer documents, more steps or more nouns"
        )

    def _covers_item(self, story: Story) -> bool:
        for agreed, text in story.marks():
            common: Counter[int] = Counter()  # n-grams that the story shares with each mark
            for gram in grams(text, GRAM):
                common.update(self._holders.get((agreed, gram), ()))
            if any(count >= self._enough[mark] for mark, count in common.items()):
                return True
        return False
