"""Say in a sentence what each benchmark of the built-in world asks, from the world's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SENTENCES = {
    "world_choice": "Sums told in words, of {shortest} to {longest} steps: the likeliest of four"
    " numbers.",
    "world_text": "Stories with their solutions: how likely every word is.",
    "world_expressions": "Arithmetic: prefix expressions of up to {operations} operations modulo"
    " {modulus}; the value of the last of {questions} on a sheet.",
    "world_recall": "Recall: {recall_pairs} pairs of a key and a value, then {questions} keys; the"
    " value of the last key.",
    "world_chain": "Chain: {chain_tables} tables of {chain_pairs} pairs, each leading on to the"
    " next; where a symbol leads in up to {chain_tables} steps.",
    "world_tracking": "Tracking: numbers, up to {moves} before each of {questions} questions; the"
    " sum so far modulo {modulus}.",
}
STORIES = "Sums told in words, of {first} to {last} steps: the number at the end."


def world_task(name: str, settings: Mapping[str, Any]) -> str:
    """Say what a benchmark of the world asks; empty for another benchmark, and without settings.

    `settings` are those of `WorldSettings`, by their names.
    """
    try:
        if name in ("world_short", "world_long"):
            part = name.removeprefix("world_")
            steps = steps_of(settings["shortest"], settings["longest"], part)
            return STORIES.format(first=steps[0], last=steps[-1])
        return SENTENCES.get(name, "").format_map(settings)
    except KeyError:  # of a version without this setting
        return ""


def steps_of(shortest: int, longest: int, part: str = "all") -> range:
    """Return the numbers of steps of stories: all, or one half ("short", "long")."""
    middle = (shortest + longest) // 2
    last = middle if part == "short" else longest
    first = min(middle + 1, last) if part == "long" else shortest
    return range(first, last + 1)
