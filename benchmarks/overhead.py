"""Measure what starting, operating and showing a study costs beside its work, in CPU seconds and by the clock.

    python -m benchmarks.overhead STUDY FOLDER

Runs the study in a new folder, as `dreamer run` does, and looks every second at all that works for the run:

- A child process counts as training, evaluation, Prefect's server or, any other, as data.
- A thread of this process counts as what its innermost function among FUNCTIONS is for. The time between two looks
  goes to where the thread is at the second look. Threads of compiled libraries (DuckDB, Arrow) count as what a thread
  of Python does beside them.
- Before the first stage everything in this process is "imports and checks".

CPU time of child processes after their last look, and of those that no look has seen, is a row of its own, of no kind.

A stage has begun when its function is seen on a stack. Overhead by the clock is the time in which no data stage and no
process that trains or evaluates is seen. CPU time of the interpreter's own start counts as "imports and checks"; its
end is not counted, and neither is by the clock.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FrameType

from benchmarks.polling import polled

LOOK_SECONDS = 1.0
TICKS = os.sysconf("SC_CLK_TCK")
DATA, TRAINING, EVALUATION, SERVER = "data", "training", "evaluation", "Prefect's server"
WORK = (DATA, TRAINING, EVALUATION)
IMPORTS, ENTERING, LIVE, DRAWING = "imports and checks", "entering rows", "drawing live", "drawing at the end"
OTHER, LOOKING = "other", "this measurement"
FUNCTIONS = {  # the end of a file's name, and a function in the file, or "" for all of them
    ("pipeline/storage/store.py", "_digest_of"): "hashing",
    ("pipeline/storage/integrity.py", "damage"): "hashing",
    ("flows/stages/prepare.py", "prepare_data"): DATA,
    ("flows/stages/live.py", "_enter"): ENTERING,
    ("flows/stages/ingest.py", "ingest_stages"): ENTERING,
    ("flows/stages/live.py", "_draw"): LIVE,
    ("flows/full_study.py", "report_flow"): DRAWING,
    ("flows/stages/train.py", ""): "waiting for trainings",
    ("flows/stages/evaluate.py", ""): "waiting for evaluations",
    ("flows/running/machines/evaluators.py", ""): "waiting for evaluations",
    ("flows/running/engine.py", "empty_into"): "sending progress to Prefect",
    ("prefect/", ""): "Prefect in the flow's process",
}
COMPILED = (DATA, ENTERING, LIVE, DRAWING)  # what uses threads of compiled libraries
PHASES = ("start", "data", "models", "end")


@dataclass(frozen=True)
class Look:
    """Hold one look: the CPU seconds of each kind since the look before, and the kinds of work that were under way."""

    at: float
    spent: Counter[str]
    working: frozenset[str]


@dataclass
class Observer:
    """Observe this process and its children, and remember the CPU time that each thread and process has used."""

    known: dict[tuple[str, int], float] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    begun: bool = False
    before: float = field(default_factory=lambda: seconds_of_ended_children())

    def look(self) -> None:
        """Note what was used since the last look."""
        began, spent = time.thread_time(), Counter[str]()
        doing = {kind for kind in self._threads(spent) if kind in COMPILED}
        working = set(doing & {DATA})
        for number, command in descendants(os.getpid()):
            kind = kind_of_process(command)
            spent[kind] += self._since("process", number, process_seconds(Path(f"/proc/{number}")))
            if kind in (TRAINING, EVALUATION):
                working.add(kind)
        self.begun = self.begun or bool(working)
        used = time.thread_time() - began
        spent[LOOKING] += used
        self.looks.append(Look(time.monotonic(), spent, frozenset(working)))

    def unseen(self) -> float:
        """Return the CPU seconds of children that have ended, beyond what the looks have seen of them."""
        seen = sum(seconds for (what, _), seconds in self.known.items() if what == "process")
        return max(seconds_of_ended_children() - self.before - seen, 0.0)

    def _threads(self, spent: Counter[str]) -> set[str]:
        """Add what the threads of this process have used; returns what they are doing."""
        frames = sys._current_frames()
        python = {thread.native_id: kind_of_stack(frames.get(thread.ident)) for thread in threading.enumerate()}
        doing = set(python.values())
        compiled = next((kind for kind in COMPILED if kind in doing), OTHER)
        for task in Path("/proc/self/task").iterdir():
            number = int(task.name)
            if number == threading.get_native_id():
                continue
            used = self._since("thread", number, process_seconds(task))
            kind = python.get(number, compiled)
            spent[kind if self.begun or kind == DATA else IMPORTS] += used
        return doing

    def _since(self, what: str, number: int, seconds: float) -> float:
        before = self.known.get((what, number), 0.0)
        self.known[what, number] = seconds
        return max(seconds - before, 0.0)


def kind_of_stack(frame: FrameType | None) -> str:
    """Say what a thread is doing, from its innermost function that is known."""
    while frame:
        if kind := kind_of_function(frame.f_code.co_filename, frame.f_code.co_name):
            return kind
        frame = frame.f_back
    return OTHER


@cache
def kind_of_function(file: str, name: str) -> str | None:
    """Find what a function is for in FUNCTIONS."""
    for (ending, function), kind in FUNCTIONS.items():
        if function in ("", name) and (file.endswith(ending) or f"/site-packages/{ending}" in file):
            return kind
    return None


def kind_of_process(command: str) -> str:
    """Say what a child process is for, from its command line."""
    if "model.train" in command or "model.node" in command:
        return TRAINING
    if "model.evaluat" in command:
        return EVALUATION
    return SERVER if "prefect" in command else DATA


def process_seconds(folder: Path) -> float:
    """Read the CPU seconds of a process or a thread from its folder in /proc, without its children; 0 if it is gone."""
    try:
        values = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(values[11]) + int(values[12])) / TICKS


def seconds_of_ended_children() -> float:
    """Return the CPU seconds of all children of this process that have ended and were waited for, and of theirs."""
    times = os.times()
    return times.children_user + times.children_system


def descendants(number: int) -> Iterator[tuple[int, str]]:
    """List the children of a process, their children and so on, each with its command line."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # a process that has ended meanwhile
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    for one in parents:
        above = parents[one]
        while above not in (number, 0):
            above = parents.get(above, 0)
        if above == number:
            with suppress(OSError):
                yield one, Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


@contextmanager
def observed() -> Iterator[Observer]:
    """Look at this process and its children every LOOK_SECONDS during the block, and once more at its end."""
    observer = Observer()
    observer.look()
    with polled(observer.look, LOOK_SECONDS):
        yield observer


def phases(looks: Sequence[Look]) -> list[str]:
    """Name the phase of each look: before all work, before all models, until all models are evaluated, afterwards."""
    at_work = [place for place, look in enumerate(looks) if look.working]
    of_models = [place for place in at_work if looks[place].working - {DATA}]
    if not of_models:
        return [PHASES[0] if not at_work or place < at_work[0] else PHASES[1] for place in range(len(looks))]
    borders = (at_work[0], of_models[0], of_models[-1] + 1)
    return [PHASES[sum(place >= border for border in borders)] for place in range(len(looks))]


def idle_seconds(looks: Sequence[Look]) -> Counter[str]:
    """Count, for each phase, the seconds by the clock in which no work was under way."""
    found = Counter[str]()
    for (before, after), phase in zip(pairwise(looks), phases(looks)[1:], strict=True):
        if not after.working:
            found[phase] += after.at - before.at
    return found


def print_table(observer: Observer) -> None:
    """Print CPU seconds by kind and phase, and what is not work: in sum, by the clock, and as a share of the cores."""
    looks = observer.looks
    named = phases(looks)
    cells = Counter[tuple[str, str]]()
    clock = Counter[str]()
    for look, phase in zip(looks, named, strict=True):
        for kind, seconds in look.spent.items():
            cells[kind, phase] += seconds
    for (before, after), phase in zip(pairwise(looks), named[1:], strict=True):
        clock[phase] += after.at - before.at

    def row(name: str, values: Sequence[float]) -> None:
        print(f"{name:<32}" + "".join(f"{value:>9.1f}" for value in [*values, sum(values)]))

    def seconds_of(kinds: Sequence[str]) -> list[float]:
        return [sum(cells[kind, phase] for kind in kinds) for phase in PHASES]

    print(f"{'CPU seconds':<32}" + "".join(f"{name:>9}" for name in [*PHASES, "sum"]))
    rest = sorted({kind for kind, _ in cells} - set(WORK) - {LOOKING}, key=lambda kind: -sum(seconds_of([kind])))
    for kind in [*WORK, *rest, LOOKING]:
        row(kind, seconds_of([kind]))
    row("all but work and measurement", seconds_of(rest))
    print(f"{'of children, seen by no look':<32}{observer.unseen():>45.1f}")
    idle, cores = idle_seconds(looks), len(os.sched_getaffinity(0))
    row("seconds by the clock", [clock[phase] for phase in PHASES])
    row("of them without work", [idle[phase] for phase in PHASES])
    print_thirds([look for look, phase in zip(looks, named, strict=True) if phase == "models"], clock["models"], cores)


def print_thirds(looks: Sequence[Look], seconds: float, cores: int) -> None:
    """Print what is not work in each third of the `seconds` in which models train; a long study is as the last."""
    for third in range(3 if looks else 0):
        start = looks[-1].at - seconds * (3 - third) / 3
        inside = [look for look in looks if start < look.at <= start + seconds / 3]
        used = Counter[str]()
        for look in inside:
            used.update({kind: spent for kind, spent in look.spent.items() if kind not in (*WORK, LOOKING)})
        parts = ", ".join(f"{kind} {spent / (seconds / 3):.2%}" for kind, spent in used.most_common(5))
        share = used.total() / (seconds / 3) / cores
        print(f"third {third + 1} of the models: {share:.2%} of {cores} cores; of one core: {parts}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a study, print the table, and return the exit status of the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", metavar="STUDY")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    with observed() as observer:
        from flows.commands import cli  # within the block, as this import is a part of what is measured

        status = cli.main(["run", options.study, "--root", str(options.folder)])
    print_table(observer)
    return status


if __name__ == "__main__":
    sys.exit(main())
