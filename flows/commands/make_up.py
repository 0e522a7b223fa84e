"""Run the deployments of prefect.yaml in the foreground until Ctrl-C (`make up`).

A server is started if none answers.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dreamer_study.flows.jobs import BAD_INPUT, Failed
from dreamer_study.flows.jobs.private_files import open_private, private_folder
from dreamer_study.flows.prefect.deployments import read_deployments, register
from dreamer_study.flows.prefect.lost_runs import say_lost_runs
from dreamer_study.flows.prefect.report_links import serving_reports
from dreamer_study.flows.prefect.server import (
    allow_loopback,
    healthy,
    kept_alive,
    ours,
    secret,
    secret_file,
    secret_for,
)
from dreamer_study.model.processes import stopping_signals
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.locks import try_lock

if TYPE_CHECKING:
    from prefect.deployments.runner import RunnerDeployment

DEPLOYMENTS = Path("prefect.yaml")
RECORD = "deployments.json"  # in PREFECT_HOME
# Prefect's own setting of how its processes print a task's lines, and that form with the study.
TASK_LINES = "PREFECT_LOGGING_FORMATTERS_STANDARD_TASK_RUN_FMT"
WITH_STUDY = (
    "%(asctime)s.%(msecs)03d | %(levelname)-7s | Task run %(task_run_name)r of %(flow_run_name)r"
    " - %(message)s"
)


def main() -> None:
    """Serve the deployments; ends with one line where that is not possible."""
    parser = argparse.ArgumentParser("make up")
    parser.add_argument("--limit", default="1", help="studies that run at once")
    options = parser.parse_args()
    # no process of a study takes modules from the current folder
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        up(read_limit(options.limit))
    except (InputError, Failed) as error:
        print(f"make up: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT if isinstance(error, InputError) else 1)


def read_limit(text: str) -> int:
    """Read how many studies run at once. Raises InputError for what is no number of studies."""
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"LIMIT={text} is no number of studies; give 1 or more, as LIMIT=2")
    return int(text)


def up(limit: int = 1) -> None:
    """Serve the deployments until stopped, up to `limit` studies at once.

    Starts a server if none answers, prints its address, and ends the server that was started.
    """
    allow_loopback()
    from prefect.settings import get_current_settings

    settings = get_current_settings()
    address = settings.api.url
    if not address or not DEPLOYMENTS.exists():
        raise InputError(
            "run this from the project's folder, where pyproject.toml and prefect.yaml are"
        )
    stops: list[int] = []

    def stop(number: int, _: object) -> None:
        stops.append(number)
        sys.exit(128 + number)

    for number in stopping_signals():
        if number != signal.SIGINT:  # which is a KeyboardInterrupt
            signal.signal(number, stop)
    reports_port = (urlsplit(address).port or 4200) + 1
    with only_one(address), serving_reports(reports_port):
        joins = healthy(address)
        if joins:
            check_owner(address)
            server = nullcontext()
        else:
            print("Prefect's server starts, which may take a minute", flush=True)
            server = started_server(address)
        # Without its server Prefect's runner would print a traceback, and continues by asking from
        # time to time.
        logging.getLogger("prefect.FlowRunCancellingObserver").setLevel(logging.ERROR)
        secret_file()  # before the temporary folder changes, in which it is
        # Prefect's runner would use a folder of a name for all users
        tempfile.tempdir = str(private_folder("runner"))
        try:
            with server:
                say_server(address, joins=joins)
                serve(deployments(), limit, settings.home / RECORD, stops)
        except KeyboardInterrupt:
            pass


@contextmanager
def started_server(address: str) -> Iterator[None]:
    """Run a server at an address during the block, whose secret this process and its runs send."""
    from prefect.settings import PREFECT_API_AUTH_STRING, temporary_settings

    with kept_alive(address), temporary_settings({PREFECT_API_AUTH_STRING: secret()}):
        os.environ["PREFECT_API_AUTH_STRING"] = secret()
        yield


def check_owner(address: str) -> None:
    """Raise InputError where another user's server answers at an address."""
    if not ours(address) and not os.environ.get("PREFECT_API_AUTH_STRING"):
        raise InputError(
            f"another user's server answers at {address}, and whoever it obeys could start"
            " studies as you: for another port PREFECT_API_URL=http://127.0.0.1:4201/api make"
            " up; if you trust that one, set its secret in PREFECT_API_AUTH_STRING"
        )


def say_server(address: str, *, joins: bool) -> None:
    """Print where the server answers, and what its pages ask for."""
    if joins:
        whose = " (a server that ran before, and keeps running)"
    else:
        whose = ""
        say_lost_runs()
    print(f"Prefect answers at {address.removesuffix('/api')}{whose}", flush=True)
    if not joins:
        print(f"Its pages ask for the {secret_for(sys.stdout, secret_file())}", flush=True)


def serve(deployments: list[RunnerDeployment], limit: int, record: Path, stops: list[int]) -> None:
    """Register the deployments and run what is started of them, until stopped.

    Prefect's own `serve` would delete the schedules of users at its start, and pause all
    deployments at its end.
    """
    from prefect.exceptions import TerminationSignal
    from prefect.runner import Runner

    runner = Runner(limit=limit, pause_on_shutdown=False)
    register(runner, deployments, record)
    if stops:  # the exit was lost in a callback of Prefect's client
        sys.exit(128 + stops[0])
    if limit > 1:
        # Lines of several studies come in turn, and two studies may train models of one name.
        os.environ.setdefault(TASK_LINES, WITH_STUDY)
        print(
            f"Up to {limit} studies run at once, each with its own `workers` and `data.memory`;"
            " a GPU is held by one at a time",
            flush=True,
        )
    print("In a second terminal: prefect deployment run full-study --watch", flush=True)
    with suppress(KeyboardInterrupt, TerminationSignal):
        asyncio.run(runner.start())
    print("Stopped; schedules stay as they are, and wait for the next `make up`", flush=True)


@contextmanager
def only_one(address: str) -> Iterator[None]:
    """Hold the lock of this user's `make up` at an address.

    Raises InputError where another one runs.
    """
    parts = urlsplit(address)
    lock = private_folder("up") / f"{parts.hostname}-{parts.port}.lock"
    with open_private(lock) as file:
        if not try_lock(file):
            raise InputError(
                f"another `make up` serves the deployments at {address}; stop it first"
            )
        yield


def deployments(path: Path = DEPLOYMENTS) -> list[RunnerDeployment]:
    """Build the deployments that `prefect.yaml` lists."""
    from dreamer_study.flows import full_study

    name = full_study.__name__
    flows = {
        f"{name}.full_study": full_study.full_study,
        f"{name}.report": full_study.report,
    }
    return read_deployments(path, flows)


if __name__ == "__main__":
    main()
