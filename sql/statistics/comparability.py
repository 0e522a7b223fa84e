"""Decide on which tasks two studies can be compared item by item, and say why not on the others.

Every evaluation stores a digest of its items in the form in which they were asked: equal digests are equal items. With
unequal digests the items may still be one benchmark under two limits, since a limit takes the first items. That is
believed where the configurations differ in the limit and name one source of data; items are then paired by name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd

from sql.names import AVERAGE

SIDES = ("first", "second")


@dataclass(frozen=True)
class Asked:
    """What a study asked: a row of compared_tasks for each task, and the study's configuration as far as known."""

    tasks: dict[str, dict[str, Any]]
    configuration: dict[str, Any]

    @property
    def limit(self) -> int | None:
        """Return the items of each task; None is all of them."""
        return self.configuration.get("evaluation", {}).get("limit")

    @property
    def data(self) -> tuple | None:
        """Return the settings that decide the items of the benchmarks except for their number; None if unknown."""
        if not self.configuration:
            return None
        benchmarks = self.configuration.get("evaluation", {}).get("benchmarks", [])
        described = [entry for entry in benchmarks if isinstance(entry, dict)]
        return self.configuration.get("data", {}).get("world"), described

    @property
    def averaged(self) -> list[str]:
        """Return the tasks of the study's average."""
        return [task for task, row in self.tasks.items() if row["averaged"]]


def read_asked(connection: duckdb.DuckDBPyConnection, study: str) -> Asked:
    """Read what a study of an open results file asked."""
    found = connection.execute("from compared_tasks(?)", [study])
    names = [column for column, *_ in found.description]
    tasks = {row[0]: dict(zip(names, row, strict=True)) for row in found.fetchall()}
    found = connection.execute("select config from studies where study_id = ?", [study]).fetchall()
    return Asked(tasks, json.loads(found[0][0]).get("study", {}) if found and found[0][0] else {})


def task_notes(first: Asked, second: Asked) -> tuple[set[str], list[str]]:
    """Return the tasks that cannot be compared, and a line for each of these and of those compared in part."""
    left_out = set(first.tasks.keys() ^ second.tasks.keys())
    notes = [f"left out: {task}: not in the {SIDES[task in first.tasks]} study" for task in left_out]
    notes.sort()
    for task in sorted(first.tasks.keys() & second.tasks.keys()):
        reason, compared = _difference(first, second, task)
        if reason:
            notes.append(f"{'in part' if compared else 'left out'}: {task}: {reason}")
        if not compared:
            left_out.add(task)
    return left_out, notes


def weights_notes(first: Asked, second: Asked) -> list[str]:
    """Return a line where one study evaluated raw and the other averaged weights: for that alone curves differ."""
    kinds = [sorted({kind for row in asked.tasks.values() for kind in row["weights"]}) for asked in (first, second)]
    if kinds[0] == kinds[1] or not all(kinds):
        return []
    described = [f"{' and '.join(one)} weights in the {side} study" for one, side in zip(kinds, SIDES, strict=True)]
    return [f"beware: evaluated were {', '.join(described)}; averaged weights are better at equal tokens"]


def average_notes(
    asked: tuple[Asked, Asked], left_out: set[str], factors: tuple[pd.DataFrame, pd.DataFrame]
) -> tuple[bool, list[str]]:
    """Return whether factors on the average can be compared, and lines about averages left out.

    A study's average is over all of its tasks: without one of them the average is another one, and a checkpoint that
    lacks a task has no average.
    """
    tasks = [one.averaged for one in asked]
    if tasks[0] != tasks[1]:
        over = [
            f"over {', '.join(one) or 'no task'} in the {side} study" for one, side in zip(tasks, SIDES, strict=True)
        ]
        return False, [f"left out: {AVERAGE}: it is {' and '.join(over)}"]
    unequal = [task for task in tasks[0] if task in left_out]
    if unequal:
        return False, [f"left out: {AVERAGE}: {', '.join(unequal)} in it cannot be compared"]
    return True, [
        f"left out: {AVERAGE}: no factor on it in the {side} study, where no checkpoint of LA and another model has "
        f"all of its tasks ({', '.join(tasks[0])})"
        for side, known in zip(SIDES, (frame[frame["factor"].notna()] for frame in factors), strict=True)
        if len(known) and AVERAGE not in set(known["task"])
    ]


def _difference(first: Asked, second: Asked, task: str) -> tuple[str, bool]:
    """Say in what two studies asked a task differently, and whether the task can still be compared."""
    one, other = first.tasks[task], second.tasks[task]
    versions = [row["data_versions"] for row in (one, other)]
    if versions[0] == versions[1] or not all(versions):  # equal, or without versions: the names decide
        return "", True
    forms = [" and ".join(row["asked_by"]) or "unknown" for row in (one, other)]
    if forms[0] != forms[1]:
        return f"asked by {forms[0]} in the first study, by {forms[1]} in the second", False
    if any(row["fewest"] != row["items"] for row in (one, other)) or max(map(len, versions)) > 1:
        return "a study asked several sets of items of it", False
    if one["items"] == other["items"]:
        return f"{one['items']} items in both studies, but not the same ones or not in the same words", False
    counted = f"{one['items']} items in the first study, {other['items']} in the second"
    if one["task_versions"] != other["task_versions"]:
        return f"{counted}, of other versions of the task", False
    if first.data is None or second.data is None:
        return f"{counted}, and no configuration that says whether of the same data", False
    if first.limit == second.limit:
        return f"{counted}, which no limit explains", False
    if first.data != second.data:
        return f"{counted}, and other settings of the data", False
    limits = " and ".join("none" if asked.limit is None else f"{asked.limit}" for asked in (first, second))
    return f"{counted} (limits: {limits}); accuracies on the items of the same name, factors on all of each", True
