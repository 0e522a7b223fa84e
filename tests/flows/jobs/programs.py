"""A program that stands for trainings and evaluations, and what is done with jobs that run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import dreamer_study.flows.jobs.local
from dreamer_study.flows.jobs import Event, Job, Jobs
from dreamer_study.flows.jobs.local import LocalJobs
from tests.flows.by_hand import tiny

PROGRAM = """
import os, signal, subprocess, sys, time
from pathlib import Path

def prepare_staying():
    pass

def main(arguments):
    what, *rest = arguments
    if what == "fail" and os.environ.get("RANK") == "0":  # ranks share a log, whose last line is to be the other's
        return 0
    place = " ".join(os.environ.get(name, "none") for name in ("CUDA_VISIBLE_DEVICES", "KIND", "RANK"))
    os.write(1, f"{os.getpid()} {place}\\n".encode())  # at once, for the same reason
    if what.endswith("-rank") and os.environ["RANK"] == "1":
        while not Path(rest[0]).exists():  # the other rank is under way
            time.sleep(0.02)
    if what == "bad" or what == "bad-rank" and os.environ["RANK"] == "1":
        print("bad input: field x: must be 1")
        return 2
    if what == "ends":  # as code of a user's may, with any status
        print("the last word", flush=True)
        os._exit(2)
    if what == "hopeless":
        print("the disk is full")
        return 3
    if what == "fail":
        raise RuntimeError("broken")
    if what == "killed-rank" and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if what == "parent":
        grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(900)"])
        Path(rest[0] + ".grandchild").write_text(str(grandchild.pid))
    if what == "saves":
        def save(*_):
            Path(rest[0] + ".saved").touch()
            sys.exit(143)
        signal.signal(signal.SIGTERM, save)
    if what == "trains":
        Path(rest[0] + ".checkpoints", "checkpoints", "000000000006000").mkdir(parents=True)
    if rest:
        unfinished = Path(f"{rest[0]}.{os.getpid()}")
        unfinished.write_text(str(os.getpid()))
        unfinished.rename(rest[0])
        while not Path(rest[0] + ".go").exists():
            time.sleep(0.02)
    return 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""

# Of torch, which takes a second to import, the process that stays asks only for the state of a GPU.
STAYING = """
import sys
from types import SimpleNamespace
sys.modules["torch"] = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False))
import dreamer_study.model.worker
dreamer_study.model.worker.PROGRAMS = ("a_program",)
if __name__ == "__main__":
    sys.exit(dreamer_study.model.worker.main())
"""


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes that stay do `a_program`."""
    (folder / "a_program.py").write_text(PROGRAM)
    (folder / "staying_for_tests.py").write_text(STAYING)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    start = dreamer_study.flows.jobs.local.Child

    def started(module: str, *arguments: str, **options: Any) -> Any:
        return start(
            "staying_for_tests" if module == "dreamer_study.model.worker" else module,
            *arguments,
            **options,
        )

    monkeypatch.setattr(dreamer_study.flows.jobs.local, "Child", started)


@contextmanager
def local(folder: Path, workers: int | None = 2, **settings: Any) -> Iterator[LocalJobs]:
    """The jobs of a study, of which nothing is left at the end."""
    with closing(LocalJobs(tiny(folder / "run", workers=workers, **settings))) as jobs:
        (folder / "run").mkdir(exist_ok=True)
        try:
            yield jobs
        finally:
            jobs.stop(grace=0)


def job(folder: Path, name: str, what: str = "say", *, waits: bool = False, **options: Any) -> Job:
    """A job of the program; one that `waits` writes its process to the file `folder/name`, and ends
    after `go`."""
    arguments = (what, str(folder / name)) if waits else (what,)
    given = {"kind": "training", "folder": folder / f"{name}.checkpoints"} | options
    return Job(
        name=name, program="a_program", arguments=arguments, log=folder / f"{name}.log", **given
    )


def go(folder: Path, *names: str) -> None:
    """Let jobs that wait go on to their end."""
    for name in names:
        (folder / f"{name}.go").touch()


def events(
    jobs: Jobs, *submitted: Job, hear: Callable[[Event], object] = lambda event: None
) -> dict[str, list[Event]]:
    """Submit jobs and wait for their end; returns the events of each job, without those of
    progress."""
    for one in submitted:
        jobs.submit(one)
    found: dict[str, list[Event]] = {one.name: [] for one in submitted}
    for event in jobs.events():
        hear(event)
        if event.kind != "progress":
            found.setdefault(event.job.name, []).append(event)
    return found


def said(folder: Path, name: str) -> list[list[str]]:
    """What the processes of a job have said: process, GPUs, kind, rank."""
    return [line.split() for line in (folder / f"{name}.log").read_text().splitlines()]


def process(folder: Path, name: str) -> int:
    return int(said(folder, name)[0][0])


def alive(pid: int) -> bool:
    """Whether a process runs, and is not merely still listed."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
