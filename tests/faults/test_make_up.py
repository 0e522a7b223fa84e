"""A killed server of `make up` starts again; a killed `make up` ends no study, and the next one
ends lost flow runs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from dreamer_study.flows.progress.study_lock import LOCK
from dreamer_study.pipeline.storage.locks import holder
from dreamer_study.sql.results import query
from tests.faults.processes import (
    PREFECT,
    ask,
    child,
    environment,
    plant,
    refuses_strangers,
    request,
    started_for,
    trains,
)
from tests.flows.jobs.programs import alive
from tests.flows.prepared import with_data, with_database
from tests.flows.small_study import PROJECT, small_study
from tests.waiting import PATIENCE_SECONDS, until


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/api"


class MakeUp:
    """`make up` at a free address, and what Prefect's API says there."""

    def __init__(self, folder: Path) -> None:
        self.address, self.log = free_address(), folder / "log"
        self.environment = environment(
            PREFECT_API_URL=self.address, PREFECT_HOME=str(with_database(folder / "prefect"))
        )
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "dreamer_study.flows.commands.make_up", "--limit", "2"]
        # Tests that a shell has started in the background ignore Ctrl-C, and so would this process.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        signal.signal(signal.SIGINT, before)

    def until(self, condition: Callable[[], object], pause: float = 2) -> None:
        until(condition, self.process, self.log, pause)

    def begin(self, study: Path, root: Path, until: str = "report") -> str:
        """The id of a new flow run."""
        name = "deployments/name/full-study/demo"
        start = {
            "parameters": {"study": str(study), "root": str(root), "until": until},
            "state": {"type": "SCHEDULED"},
        }
        # asked again where no answer came, as from a server that is busy
        start["idempotency_key"] = str(root)
        run: dict[str, Any] = {}

        def begun() -> dict[str, Any]:
            if known := ask(self.address, name):
                run.update(ask(self.address, f"deployments/{known['id']}/create_flow_run", start))
            return run

        self.until(begun)
        return run["id"]

    def end(self, run: str) -> str:
        """The state in which a flow run ends."""
        ended = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        self.until(lambda: ask(self.address, f"flow_runs/{run}").get("state_type") in ended)
        return ask(self.address, f"flow_runs/{run}")["state_type"]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[MakeUp]:
    up = MakeUp(tmp_path)
    yield up
    up.process.terminate()
    up.process.wait(PATIENCE_SECONDS)
    for number in started_for(tmp_path):  # a flow goes on without its `make up`
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


@pytest.mark.slow
def test_the_documented_command_runs_a_study_among_hostile_files_and_strangers_are_refused(
    up: MakeUp, tmp_path: Path
) -> None:
    here, root = tmp_path / "here", tmp_path / "run"
    here.mkdir()
    study, ran = small_study(here), plant(here)
    up.until(lambda: "prefect deployment run full-study" in up.log.read_text())
    refuses_strangers(up.address)
    parameters = ["--param", f"study={study}", "--param", f"root={root}", "--watch"]
    command = [PREFECT, "deployment", "run", "full-study", *parameters]
    done = subprocess.run(command, cwd=PROJECT, env=up.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr + up.log.read_text()
    assert (root / "report" / "index.html").exists()
    assert not ran.exists(), ran.read_text()
    assert [run["tags"] for run in ask(up.address, "flow_runs/filter", {})] == [["tiny"]]
    tasks = {task["name"]: task["state_type"] for task in ask(up.address, "task_runs/filter", {})}
    assert {
        "clean world",
        "match models",
        "train LA seed 0",
        "statistics",
        "report",
    } <= tasks.keys()
    assert set(tasks.values()) == {"COMPLETED"}


OWN = ("description", "parameters", "tags", "paused", "global_concurrency_limit")
OWN_OF_SCHEDULES = ("schedule", "active", "parameters", "slug")


def settings(up: MakeUp, name: str) -> dict[str, Any]:
    """What a user can have set of a deployment."""
    deployment = ask(up.address, f"deployments/name/full-study/{name}")
    limit = deployment["global_concurrency_limit"]
    schedules = [
        {key: schedule[key] for key in OWN_OF_SCHEDULES} for schedule in deployment["schedules"]
    ]
    return {
        **{key: deployment[key] for key in OWN},
        "global_concurrency_limit": limit and limit["limit"],
        "schedules": sorted(schedules, key=lambda schedule: str(schedule["slug"])),
    }


def change(up: MakeUp, path: str, body: object, method: str | None = None) -> None:
    """Change something in Prefect; tried again while the server is too busy to answer."""

    def is_done() -> bool:
        try:
            request(up.address, path, body, method)
        except HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                return False
            raise
        return True

    up.until(is_done)


def change_settings(up: MakeUp) -> None:
    """Change everything that a user can change of a deployment, in Prefect."""
    changed, paused = (
        ask(up.address, f"deployments/name/full-study/{name}")["id"]
        for name in ("full-study", "paper-32")
    )
    changes = {
        "description": "nightly",
        "parameters": {"study": "control", "until": "train"},
        "tags": ["nightly"],
        "concurrency_limit": 3,
    }
    change(up, f"deployments/{changed}", changes, "PATCH")
    schedules = [
        {"schedule": {"cron": "0 3 * * *", "timezone": "UTC"}, "active": True, "slug": "night"},
        {"schedule": {"interval": 86400}, "active": False},  # no slug, as from Prefect's pages
    ]
    change(up, f"deployments/{changed}/schedules", schedules)
    change(up, f"deployments/{paused}/pause_deployment", {})


@pytest.mark.slow
def test_stopped_and_killed_make_up_starts_again_with_what_users_changed_and_studies_go_on(
    up: MakeUp, tmp_path: Path
) -> None:
    names = ("full-study", "paper-32", "control")

    def serves(times: int) -> None:
        said = "prefect deployment run full-study --watch"
        up.until(lambda: up.log.read_text().count(said) == times)
        answers()

    def answers() -> None:
        up.until(lambda: all(ask(up.address, f"deployments/name/full-study/{n}") for n in names))

    serves(1)
    change_settings(up)
    before = [settings(up, name) for name in names]
    assert [len(of["schedules"]) for of in before] == [2, 0, 0]
    assert [of["paused"] for of in before] == [False, True, False]
    assert before[0]["global_concurrency_limit"] == 3

    # `make up` is stopped, and is started again.
    up.process.send_signal(signal.SIGINT)
    up.process.wait(PATIENCE_SECONDS)
    up.start()
    serves(2)
    assert [settings(up, name) for name in names] == before

    # Its server is killed while a study trains, and is started again; the study continues.
    study = small_study(tmp_path, tokens=60_000, save_every_seconds=0)
    root = with_data(tmp_path / "run")
    run = up.begin(study, root, until="train")
    up.until(lambda: trains(root), pause=0.1)
    server = child(up.process.pid, "prefect server start")
    assert server is not None
    os.kill(server, signal.SIGKILL)
    assert up.end(run) == "COMPLETED"
    assert query(root / "results.duckdb", "select count(*) as n from steps")["n"][0] > 0
    said = "Prefect's server was killed by signal 9; another one starts; studies continue"
    assert up.log.read_text().count(said) == 1
    answers()
    assert [settings(up, name) for name in names] == before

    # `make up` is killed while two studies train, and so is the process of one of them.
    goes_on = with_data(tmp_path / "a")
    killed_too = with_data(tmp_path / "b")
    run = up.begin(study, goes_on)
    lost_run = up.begin(study, killed_too)
    up.until(lambda: trains(goes_on) and trains(killed_too), pause=0.1)
    assert not (goes_on / "report").exists()
    flow, lost_flow = _flow(goes_on), _flow(killed_too)
    server = child(up.process.pid, "prefect server start")
    assert server is not None
    lost = "its process has ended meanwhile; start the study again to continue"
    assert lost not in up.log.read_text()
    _kill(up.process)
    os.kill(lost_flow, signal.SIGKILL)
    up.start()  # at once
    until(lambda: not alive(server))  # before the next one asks whether a server answers
    # The flow run is `COMPLETED` where a server was there when the study ended, else `make up`
    # found no process of it.
    assert up.end(run) in ("COMPLETED", "CRASHED")
    assert up.end(lost_run) == "CRASHED"
    up.until(lambda: lost in up.log.read_text())
    assert (goes_on / "report" / "index.html").exists()
    assert query(goes_on / "results.duckdb", "select count(*) as n from evaluations")["n"][0] > 0
    assert holder(goes_on / LOCK).startswith(f"process {flow} on "), (
        "another process has ended the study"
    )
    assert not (killed_too / "report").exists()
    serves(3)
    assert [settings(up, name) for name in names] == before


def _flow(root: Path) -> int:
    """Return the number of the process that runs a study, which the lock of the study names."""
    return int(holder(root / LOCK).split()[1])


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
