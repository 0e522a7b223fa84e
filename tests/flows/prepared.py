"""What most whole studies of tests begin with, made once for all tests, also of several processes.

The data are those of every study of `small_study`; the tables of Prefect's database take ten seconds
to make.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import IO

from dreamer_study.flows.commands.run_here import environment
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.prefect.server import await_server, own_server
from dreamer_study.flows.running.ceilings import measure_ceilings
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.loading import load_study
from tests.flows.small_study import small_study


def with_data(root: Path) -> Path:
    """Put the data and ceilings of `small_study` into the store of a new study; returns its
    root."""
    shutil.copytree(_store(), root / "store")
    return root


def with_database(home: Path) -> Path:
    """Make a home of Prefect whose database has its tables, and no row; returns it."""
    shutil.copytree(_home(), home)
    return home


def with_both(root: Path) -> Path:
    """Put both into the folder of a new study, where `dreamer run` looks for them."""
    with_database(with_data(root) / ".prefect")
    return root


@cache
def _store() -> Path:
    return _made_once("data", _make_data) / "root" / "store"


def _make_data(folder: Path) -> None:
    plan = Plan(load_study(small_study(folder), root=folder / "root"))
    prepare_data(plan, Steps())
    measure_ceilings(plan, Steps(), own=False, trust_code=False)
    assert plan.study.store_folder == folder / "root" / "store"


@cache
def _home() -> Path:
    return _made_once("prefect", _make_database)


def _make_database(home: Path) -> None:
    with environment({"PREFECT_HOME": str(home)}), own_server() as (server, address):
        await_server(server, address)


@cache
def _folder() -> Path:
    """The folder of what is made: one for all processes of xdist, of which the last one removes
    it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    folder = Path(gettempdir()) / f"prepared-{run}" if run else Path(mkdtemp(prefix="prepared-"))
    folder.mkdir(exist_ok=True)
    # All users share this lock, and the system frees that of a process that is killed.
    users = (folder / "users.lock").open("w")
    fcntl.flock(users, fcntl.LOCK_SH)
    atexit.register(_remove_unused, folder, users)
    return folder


def _remove_unused(folder: Path, users: IO[str]) -> None:
    with users, suppress(BlockingIOError):
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


def _made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that one process makes while the other processes wait."""
    made = _folder() / name
    with (_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            # one that was not finished, as by a test that is interrupted, is not used
            unfinished = Path(mkdtemp(dir=_folder()))
            make(unfinished)
            unfinished.rename(made)
    return made
