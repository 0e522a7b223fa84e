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


def measure_ceiling(
    tasks: Sequence[Mapping[str, Any]],
    *,
    trust_code: bool = False,
    item_seconds: float = ITEM_SECONDS,
    progress: Callable[[float, str], object] = lambda fraction, words: None,
    read_answer: Callable[[str], str] = str.strip,
) -> Ceiling:
    """Score the gold answers of all tasks of a benchmark, and those of trivial rules.

    `read_answer` finds the answer in a worked solution, by which equal answers are counted. Raises
    InputError for items without a right answer, and for a metric that a task does not have.
    """
    ceiling = Ceiling(read_answer=read_answer)
    for number, specification in enumerate(tasks):
        _score_task(specification, ceiling, item_seconds, trust_code=trust_code)
        progress((number + 1) / len(tasks), f"gold answers of {specification['task']}")
    return ceiling


def _score_task(
    specification: Mapping[str, Any], ceiling: Ceiling, item_seconds: float, *, trust_code: bool
) -> None:
    """Score the gold answers of a task; an item that ends the process counts as failed."""
    name = specification["task"]
    first = 0
    items = 1
    ended = 0
    while first < items:
        first, items, reason = _score(
            specification, first, ceiling, item_seconds, trust_code=trust_code
        )
        if not reason:
            return
        ended += 1
        if ended == MOST_ENDED:
            reason = f"not scored, as {ended} items before ended the process"
        last = items if ended == MOST_ENDED else first + 1
        for number in range(first, last):
            ceiling.add(
                {
                    "item": f"{name}/{number}",
                    "gold": "",
                    "score": 0.0,
                    "behind": None,
                    "error": reason,
                }
            )
        first = last


def _score(
    specification: Mapping[str, Any],
    first: int,
    ceiling: Ceiling,
    item_seconds: float,
    *,
    trust_code: bool,
) -> tuple[int, int, str]:
    """Score the items of a task from `first` on in a new process.

    Returns the item that ended the process, the number of items, and why; "" at the task's end.
    """
    name = specification["task"]
    job = {"tasks": [dict(specification)], "from": {name: first}, "trust_code": trust_code}
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
                at, items, reason = _follow(process, first, ceiling, item_seconds)
            finally:
                process.kill()
                process.wait()
            if reason and at >= items:  # no item was in hand
                log.seek(0)
                said = " ".join(log.read().split())[-300:]
                raise InputError(f"task {name}: gold answers cannot be scored ({reason}): {said}")
    return at, items, reason


def _follow(
    process: subprocess.Popen[str], first: int, ceiling: Ceiling, item_seconds: float
) -> tuple[int, int, str]:
    """Read what a process writes; returns what `_score` does."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(process, lines), daemon=True).start()
    at = first
    items = 0  # until the task's line comes
    while True:
        try:
            text = lines.get(timeout=item_seconds if items else START_SECONDS)
        except queue.Empty:
            return at, items, f"took longer than {item_seconds:g} s"
        if not text:
            return at, items, "" if process.wait() == 0 else "ended the process that scores"
        line = json.loads(text)
        if "refused" in line:
            raise InputError(line["refused"])
        if "task" in line:
            items = line["items"]
            continue
        ceiling.add(line)
        at += 1


def _read_lines(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    """Put each line of a process into a queue, and an empty one at its end."""
    assert process.stdout is not None, "the process has a pipe"
    for line in process.stdout:
        lines.put(line)
    lines.put("")
