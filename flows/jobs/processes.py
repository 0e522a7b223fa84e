"""Start processes, and say what their ends mean.

Every process has a session of its own, does not take modules from the current folder, and gets SIGTERM from the kernel
when its parent dies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.jobs import BAD_INPUT, Failed, Job
from flows.jobs.private import compiled_libraries
from model.training.ranks.bound import Child
from pipeline.errors import InputError


def started(program: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str], **options: Any) -> Child:
    """Start `python -m program arguments`; the output is appended to `log`. `options` are those of `Child`."""
    return Child(program, *arguments, log=log, environment={**compiled_libraries(), **environment}, **options)


def check_status(child: Child, status: int, job: Job) -> None:
    """Raise what an exit status other than 0 means: InputError, or Failed."""
    line = child.last_line() if status else ""
    if status == BAD_INPUT:
        raise InputError(line)
    if status:
        reason = line if status > 0 else f"killed by signal {-status}, its last line was: {line}"
        raise Failed(f"{job.name}: python -m {job.program} ended with status {status}; see {child.log}: {line}", reason)
