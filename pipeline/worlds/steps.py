"""Count the steps of the built-in world's problems: what an answer has to be worked out from."""

from __future__ import annotations

from collections.abc import Callable

from dreamer_study.pipeline.tokens.tokenizer import MARK
from dreamer_study.pipeline.worlds.settings import STORIES
from dreamer_study.pipeline.worlds.sheets import HOPS, SIGNS
from dreamer_study.pipeline.worlds.tasks import WORLD_BENCHMARKS


def steps_of(benchmark: str, question: str) -> int | None:
    """Count the steps of an item of a benchmark.

    None for benchmarks that are not the world's, and for the world's without steps, such as recall.

    >>> steps_of("world_expressions", "expressions plus 1 2 3 ; minus plus 2 3 4")
    2
    """
    if benchmark not in WORLD_BENCHMARKS:
        return None
    count = _COUNTS.get(WORLD_BENCHMARKS[benchmark]["family"])
    return count(question) if count else None


def _last_question(prompt: str) -> list[str]:
    """Return the words of the last question of a sheet, which is the one that is asked."""
    return prompt.rpartition(MARK)[2].split()


def _operations(prompt: str) -> int:
    return sum(word in SIGNS for word in _last_question(prompt))


def _hops(prompt: str) -> int:
    (word,) = (word for word in _last_question(prompt) if word in HOPS)
    return HOPS.index(word) + 1


def _numbers_since_a_sum(prompt: str) -> int:
    return sum(word.isdigit() for word in _last_question(prompt))


def _changes(story: str) -> int:
    """Count the sentences of a story between the first one, which opens, and the question."""
    return story.count(".") - 1


_COUNTS: dict[str, Callable[[str], int]] = {
    STORIES: _changes,
    "expressions": _operations,
    "chain": _hops,
    "tracking": _numbers_since_a_sum,
}
