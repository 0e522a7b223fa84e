"""Measure between which scores a model can lie on a benchmark: its ceiling and its floor.

The ceiling is the share of the gold answers that the scorer calls right. The floor is the best
score of a trivial rule (`trivial_answers.py`). A scorer that does not know the form of its own gold
answers makes every model worse than it is. The answers go through the very filters and metrics of
the evaluation, in a process of their own (`gold_scores.py`) that is ended where an item takes too
long.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from dreamer_study.model.processes import bound_command
from dreamer_study.pipeline.errors import InputError

ITEM_SECONDS = 20.0
START_SECONDS = 300.0  # to import lm-eval, read the data, render the prompts of a task
MOST_ENDED = 10  # processes of a task that an item may end; then its other items count as failed
COLUMNS = ("item_id", "gold", "reason")
FREQUENT = "most frequent answer"  # a trivial rule
LONGEST = 200  # characters of an answer that is counted; a longer text is a solution


@dataclass
class Ceiling:
    """What was found of a benchmark's gold answers, and of trivial ones.

    `items` counts those that were scored, `failed` has the others than right ones: item id, gold
    answer, reason. `behind` are the scores of some answers that begin with the task's delimiter,
    as a model writes them. `trivial` sums the scores of each trivial rule, and `answers` counts
    the right gold answers by their text. `read` and `written` are the bytes that a model reads of
    all items and the tokens that it may write. `read_answer` finds the answer in a solution.
    """

    items: int = 0
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    right: list[float] = field(default_factory=list)
    behind: list[float] = field(default_factory=list)
    trivial: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    answers: Counter[str] = field(default_factory=Counter)
    read: int = 0
    written: int = 0
    read_answer: Callable[[str], str] = str.strip

    @property
    def frequent(self) -> str | None:
        """The most frequent gold answer; None where answers are too long to be counted."""
        # of equally frequent ones the first by name, whatever the order of the items
        ranked = sorted(self.answers.items(), key=lambda each: (-each[1], each[0]))
        return ranked[0][0] if ranked else None

    @property
    def floors(self) -> dict[str, float]:
        """The score of each trivial rule, as a share of all items."""
        scores = {rule: score / self.items for rule, score in self.trivial.items()}
        if self.frequent is not None:
            scores[FREQUENT] = self.answers[self.frequent] / self.items
        return scores

    @property
    def share(self) -> float | None:
        """The share of the items whose gold answer is right; None where no item was scored."""
        if not self.items:
            return None
        return (self.items - len(self.failed)) / self.items

    @property
    def needs_stripping(self) -> bool:
        """Whether answers are right as they stand, and wrong behind the blank that models write."""
        return bool(self.behind) and max(self.behind) < 1 and max(self.right) >= 1

    def table(self) -> pa.Table:
        """Return the items that are not right."""
        columns = list(zip(*self.failed, strict=True)) or [[], [], []]
        arrays = [pa.array(column, pa.string()) for column in columns]
        return pa.table(dict(zip(COLUMNS, arrays, strict=True)))

    def add(self, line: Mapping[str, Any]) -> None:
        """Count a scored item; one that is scored only with others of a corpus is left out."""
        score = line["score"]
        if score is None:
            return
        self.items += 1
        self.read += line.get("read", 0)
        self.written += line.get("written", 0)
        for rule, trivial_score in line.get("trivial", {}).items():
            self.trivial[rule] += trivial_score or 0.0
        answer = self.read_answer(line.get("answer") or "")
        if score >= 1 and 0 < len(answer) <= LONGEST:
            self.answers[answer] += 1
        if line["behind"] is not None:
            self.behind.append(line["behind"])
            self.right.append(score)
        if score < 1:
            reason = line["error"] or f"scored {score:g}"
            self.failed.append((line["item"], line["gold"], reason))


@dataclass
class _Task:
    """A task whose gold answers are scored: `next_item` comes next, of `items` (0: not known yet).

    `ended` counts the items that have ended the process which scores.
    """

    specification: Mapping[str, Any]
    ceiling: Ceiling
    next_item: int = 0
    items: int = 0
    ended: int = 0

    @property
    def name(self) -> str:
        return str(self.specification["task"])

    @property
    def is_in_hand(self) -> bool:
        """Whether an item of it is being scored."""
        return self.next_item < self.items

    def add(self, line: Mapping[str, Any]) -> None:
        self.ceiling.add(line)
        self.next_item += 1

    def add_failed(self, reason: str) -> None:
        """Count an item that ended the process, and all that follow where too many have."""
        self.ended += 1
        last = self.next_item + 1
        if self.ended == MOST_ENDED:
            reason = f"not scored, as {self.ended} items before ended the process"
            last = self.items
        failed = {"gold": "", "score": 0.0, "behind": None, "error": reason}
        for number in range(self.next_item, last):
            self.add({"item": f"{self.name}/{number}", **failed})


def score_gold_answers(
    benchmarks: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    trust_code: bool = False,
    item_seconds: float = ITEM_SECONDS,
    progress: Callable[[float, str], object] = lambda fraction, words: None,
    read_answer: Callable[[str], str] = str.strip,
) -> dict[str, Ceiling]:
    """Score the gold answers of all tasks of each benchmark, and those of trivial rules.

    `read_answer` finds the answer in a worked solution, by which equal answers are counted. Raises
    InputError for items without a right answer, and for a metric that a task does not have.
    """
    ceilings = {name: Ceiling(read_answer=read_answer) for name in benchmarks}
    tasks = [_Task(task, ceilings[name]) for name, tasks in benchmarks.items() for task in tasks]
    left = tasks

    def report(task: _Task, tasks_after: int) -> None:
        progress(1 - tasks_after / len(tasks), f"gold answers of {task.name}")

    while left:
        left = _score(left, item_seconds, report, trust_code=trust_code)
    return ceilings


def _score(
    tasks: Sequence[_Task],
    item_seconds: float,
    report: Callable[[_Task, int], None],
    *,
    trust_code: bool,
) -> list[_Task]:
    """Score the items of tasks in a new process, from the first task's next item on.

    Returns the tasks that are left where an item ended the process. `report` is told each task that
    ends, and how many come after it.
    """
    tasks[0].items = 0  # until the new process, which takes its time to begin, says them
    job = {
        "tasks": [dict(task.specification) for task in tasks],
        "first": tasks[0].next_item,
        "trust_code": trust_code,
    }
    with tempfile.TemporaryDirectory(prefix="dreamer-gold-") as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(job))
        with (Path(folder) / "log").open("w+") as log:
            process = subprocess.Popen(
                bound_command("dreamer_study.model.evaluation.gold_scores", str(path)),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"},
            )
            try:
                number, reason = _follow(process, tasks, item_seconds, report)
            finally:
                process.kill()
                process.wait()
            if not reason:
                return []
            task = tasks[number]
            if not task.is_in_hand:
                log.seek(0)
                said = " ".join(log.read().split())[-300:]
                raise InputError(
                    f"task {task.name}: gold answers cannot be scored ({reason}): {said}"
                )
    task.add_failed(reason)
    return list(tasks[number:] if task.is_in_hand else tasks[number + 1 :])


def _follow(
    process: subprocess.Popen[str],
    tasks: Sequence[_Task],
    item_seconds: float,
    report: Callable[[_Task, int], None],
) -> tuple[int, str]:
    """Read what a process writes; returns which task ended the process, and why, or "" at the end.

    Where the process ends before its first task, that is the task.
    """
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(process, lines), daemon=True).start()
    number = 0
    while True:
        task = tasks[number]
        try:
            text = lines.get(timeout=item_seconds if task.is_in_hand else START_SECONDS)
        except queue.Empty:
            return number, f"took longer than {item_seconds:g} s"
        if not text and process.wait() != 0:
            return number, "ended the process that scores"
        if not text:
            report(task, 0)
            return number, ""
        line = json.loads(text)
        if "refused" in line:
            raise InputError(line["refused"])
        if "begins" in line:
            if line["begins"] > number:
                report(task, len(tasks) - line["begins"])
            number = line["begins"]
        elif "items" in line:
            task.items = line["items"]
        else:
            task.add(line)


def _read_lines(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    """Put each line of a process into a queue, and an empty one at its end."""
    assert process.stdout is not None, "the process has a pipe"
    for line in process.stdout:
        lines.put(line)
    lines.put("")
