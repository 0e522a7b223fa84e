"""Solve the problems of the built-in world from their words alone."""

from __future__ import annotations

import re

from pipeline.worlds.sums import GAINS


def solve(question: str) -> list[int]:
    """Work out the values on the way to the answer, the answer at the end."""
    if "under cup" in question:
        return _follow_cups(question)
    if " than " in question:
        return _follow_people(question)
    start, *changes = re.findall(r"(?:\w+ )+?(\w+) (\d)", question)
    values = [int(start[1])]
    for verb, change in changes:
        values.append(values[-1] + (int(change) if verb in GAINS else -int(change)))
    return values


def _follow_people(question: str) -> list[int]:
    found = {name: (int(number), "", "") for name, number in re.findall(r"(\w+) (?:has|owns) (\d) \w+\.", question)}
    pattern = r"(\w+) (?:has|owns) (\d) (more|less) than (\w+)\."
    for name, number, direction, other in re.findall(pattern, question):
        found[name] = (int(number), direction, other)
    name = re.findall(r"has (\w+)\?$", question)[0]
    changes = []
    while name:
        number, direction, name = found[name]
        changes.insert(0, -number if direction == "less" else number)
    return [sum(changes[: place + 1]) for place in range(len(changes))]


def _follow_cups(question: str) -> list[int]:
    values = [int(re.findall(r"under cup (\d)", question)[0])]
    for pair in re.findall(r"swaps cups (\d) and (\d)", question):
        first, second = map(int, pair)
        values.append({first: second, second: first}.get(values[-1], values[-1]))
    return values
