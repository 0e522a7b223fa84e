"""Find the tasks on which two studies can be compared item by item, and why others cannot.

Every evaluation stores a digest of its items as they were asked, so equal digests mean equal items.
"""

from __future__ import annotations

from typing import Any

import duckdb

from dreamer_study.sql.names import AVERAGE

SIDES = ("first", "second")
Asked = dict[str, dict[str, Any]]  # by task, the row of compared_tasks for a study


def read_asked(connection: duckdb.DuckDBPyConnection, study: str) -> Asked:
    """Read the tasks that a study of an open results file asked, with their items."""
    result = connection.execute("from compared_tasks(?)", [study])
    names = [column for column, *_ in result.description]  # `task` is the first
    return {row[0]: dict(zip(names, row, strict=True)) for row in result.fetchall()}


def task_notes(first: Asked, second: Asked) -> tuple[set[str], list[str]]:
    """Return the tasks that cannot be compared, and a line for each of them."""
    first_name, second_name = SIDES
    reasons = {}
    for task in sorted(first.keys() ^ second.keys()):
        missing_in = second_name if task in first else first_name
        reasons[task] = f"not in the {missing_in} study"
    for task in sorted(first.keys() & second.keys()):
        if reason := _difference(first[task], second[task]):
            reasons[task] = reason
    return set(reasons), [f"left out: {task}: {reason}" for task, reason in reasons.items()]


def weights_notes(first: Asked, second: Asked) -> list[str]:
    """Return a line if one study evaluated other weights than the other: raw, averaged, branches.

    The curves then differ for this reason alone.
    """
    kinds = [
        sorted({kind for row in asked.values() for kind in row["weights"]})
        for asked in (first, second)
    ]
    if kinds[0] == kinds[1] or not all(kinds):
        return []
    described = [
        f"{' and '.join(names)} weights in the {side} study"
        for names, side in zip(kinds, SIDES, strict=True)
    ]
    return [
        f"beware: the studies evaluated {', '.join(described)}; averaged weights, and those"
        " after a decay (branches), are better at equal tokens"
    ]


def average_notes(asked: tuple[Asked, Asked], left_out: set[str]) -> list[str]:
    """Return a line if the averages are not over the same tasks with the same items."""
    tasks = [[task for task, row in of_study.items() if row["averaged"]] for of_study in asked]
    if tasks[0] == tasks[1] and not left_out.intersection(tasks[0]):
        return []
    over = [
        f"over {', '.join(averaged) or 'no task'} in the {side} study"
        for averaged, side in zip(tasks, SIDES, strict=True)
    ]
    return [f"left out: {AVERAGE}: it is {' and '.join(over)}, which cannot all be compared"]


def _difference(first: dict[str, Any], second: dict[str, Any]) -> str:
    """Return how two studies asked a task differently; empty if they asked it equally."""
    versions = [row["data_versions"] for row in (first, second)]
    # Without versions, equal names count as equal items.
    if versions[0] == versions[1] or not all(versions):
        return ""
    sides = [
        f"{row['items']} items asked by {' and '.join(row['asked_by']) or 'unknown'} in the {side}"
        " study"
        for row, side in zip((first, second), SIDES, strict=True)
    ]
    return f"{', '.join(sides)}: the items or their words differ"
