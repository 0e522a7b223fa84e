"""Train in a process of its own.

Threads that earlier tests left in this process (Dask's) draw from Python's random numbers, and a
training saves the state of their generator: two trainings here can end with different states."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

from dreamer_study.model.train import train
from tests.waiting import PATIENCE_SECONDS

# The processes of the fork server have torch imported already.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["dreamer_study.model.train", "pyarrow.csv", "pyarrow.parquet"])


def train_in_own_process(folder: Path, **options: Any) -> None:
    """Call `train` with these options in a new process; an error there is an AssertionError here."""
    process = CONTEXT.Process(target=train, args=(folder,), kwargs=options)
    process.start()
    process.join(PATIENCE_SECONDS)
    status = process.exitcode
    if status is None:
        process.kill()
    assert status == 0, f"the training of {folder} ended with status {status}"
