"""Which tasks two studies can be compared on, item by item, and why not on the others.

A digest of the items, in the form in which they were asked, is stored with every evaluation. Equal digests are equal
items. Unequal ones can be the same benchmark with another limit: a limit takes the first items of it, so that the
smaller study asked a part of what the larger asked. That is believed where the studies' configurations say so: they
differ in the limit, and name the same data. The items are then paired by their names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd

AVERAGE = "average"


@dataclass(frozen=True)
class Asked:
    """What a study asked: a row of compared_tasks for each task, and the study's configuration as far as known."""

    tasks: dict[str, dict[str, Any]]
    configuration: dict[str, Any]

    @property
    def limit(self) -> int | None:
        """Items of each task; None is all of them."""
        return self.configuration.get("evaluation", {}).get("limit")

    @property
    def data(self) -> tuple | None:
        """What decides the items of the benchmarks but for their number; None where it is not known."""
        if not self.configuration:
            return None
        benchmarks = self.configuration.get("evaluation", {}).get("benchmarks", [])
        described = [entry for entry in benchmarks if isinstance(entry, dict)]
        return self.configuration.get("data", {}).get("world"), described

    @property
    def averaged(self) -> list[str]:
        """The tasks of the study's average."""
        return [task for task, row in self.tasks.items() if row["averaged"]]


def read_asked(connection: duckdb.DuckDBPyConnection, study: str) -> Asked:
    """What a study of an open results file asked."""
    found = connection.execute("from compared_tasks(?)", [study])
    names = [column for column, *_ in found.description]
    tasks = {row[0]: dict(zip(names, row, strict=True)) for row in found.fetchall()}
    found = connection.execute("select config from studies where study_id = ?", [study]).fetchall()
    return Asked(tasks, json.loads(found[0][0]).get("study", {}) if found and found[0][0] else {})


def task_notes(first: Asked, second: Asked) -> tuple[set[str], list[str]]:
    """The tasks that cannot be compared, and a line for each of these and of those compared in part."""
    left_out = set(first.tasks.keys() ^ second.tasks.keys())
    notes = [f"left out: {task}: not in the {'second' if task in first.tasks else 'first'} study" for task in left_out]
    notes.sort()
    for task in sorted(first.tasks.keys() & second.tasks.keys()):
        reason, compared = _difference(first, second, task)
        if reason:
            notes.append(f"{'in part' if compared else 'left out'}: {task}: {reason}")
        if not compared:
            left_out.add(task)
    return left_out, notes


def average_notes(
    first: Asked, second: Asked, left_out: set[str], factors: tuple[pd.DataFrame, pd.DataFrame]
) -> tuple[bool, list[str]]:
    """Whether factors on the average can be compared, and lines about those that cannot or are not there.

    A study's average is over all of its tasks: at a checkpoint that lacks one there is none, and with one task left
    out it is not the same average.
    """
    tasks = [asked.averaged for asked in (first, second)]
    if tasks[0] != tasks[1]:
        over = " and ".join(
            f"over {', '.join(one) or 'no task'} in the {name} study"
            for one, name in zip(tasks, ("first", "second"), strict=True)
        )
        return False, [f"left out: {AVERAGE}: it is {over}"]
    unequal = [task for task in tasks[0] if task in left_out]
    if unequal:
        return False, [f"left out: {AVERAGE}: {', '.join(unequal)} in it cannot be compared"]
    lines = []
    for name, frame in zip(("first", "second"), factors, strict=True):
        known = frame[frame["factor"].notna()]
        if len(known) and AVERAGE not in set(known["task"]):
            lines.append(
                f"left out: {AVERAGE}: no factor on it in the {name} study, where no checkpoint of LA and another "
                f"model has all of its tasks ({', '.join(tasks[0])})"
            )
    return True, lines


def _difference(first: Asked, second: Asked, task: str) -> tuple[str, bool]:
    """In what the two asked a task differently, in words, and whether it can still be compared."""
    one, other = first.tasks[task], second.tasks[task]
    versions = [row["data_versions"] for row in (one, other)]
    if versions[0] == versions[1] or not all(versions):  # equal, or entered without versions: the names decide
        return "", True
    forms = [" and ".join(row["asked_by"]) for row in (one, other)]
    if forms[0] != forms[1]:
        return f"asked by {forms[0] or 'unknown'} in the first study, by {forms[1] or 'unknown'} in the second", False
    numbers = [row["items"] for row in (one, other)]
    if any(row["fewest"] != row["items"] for row in (one, other)) or max(map(len, versions)) > 1:
        return "a study asked several sets of items of it", False
    if numbers[0] == numbers[1]:
        return f"{numbers[0]} items in both studies, but not the same ones or not in the same words", False
    counted = f"{numbers[0]} items in the first study, {numbers[1]} in the second"
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
