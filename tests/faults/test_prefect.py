"""`dreamer run` in Prefect: a lost server, a cancellation and a kill end as they should, and
nothing is left over."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from dreamer_study.flows.commands.run_here import environment
from dreamer_study.flows.prefect.server import await_server, own_server
from dreamer_study.sql.results import query
from tests.faults.processes import ask, child, start, started_for, trains
from tests.flows.prepared import with_both, with_database
from tests.flows.small_study import small_study
from tests.pipeline.sources.repositories.hub_server import hub_variables, serving
from tests.waiting import PATIENCE_SECONDS, until

SHORT = {"tokens": 60_000, "save_every_seconds": 0}
LONG = {"tokens": 100_000_000, "save_every_seconds": 0}


class Run:
    """`dreamer run` of a small study, shown in Prefect."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        address: str = "http://127.0.0.1:9/api",
        **training: object,
    ) -> None:
        self.root, self.log = folder / "run", folder / "log"
        self.log.unlink(missing_ok=True)
        study = small_study(folder, **training)
        if not self.root.exists():
            with_both(self.root)
        # An address at which nothing answers is no reason to do without a server.
        # `-v` writes a line when a training begins.
        self.process = start(study, self.root, self.log, "-v", *options, PREFECT_API_URL=address)
        until(
            lambda: " train LA seed 0 " in self.log.read_text() and trains(self.root),
            self.process,
            self.log,
        )
        assert "Prefect's server is lost" not in self.log.read_text()

    @property
    def server(self) -> int:
        """The process of the run's own server."""
        number = child(self.process.pid, "prefect server start")
        assert number is not None
        return number

    @property
    def address(self) -> str:
        """The address of the API of the run's own server, as the first lines say."""
        (line,) = [line for line in self.log.read_text().splitlines() if "(this run's own" in line]
        return next(word for word in line.split() if word.startswith("http://")) + "/api"

    def ended(self) -> str:
        """Wait until the command has ended; returns what it has said."""
        self.process.wait(PATIENCE_SECONDS)
        return self.log.read_text()

    def nothing_is_left(self) -> None:
        """Wait until no process of the study lives; one that has been told to end saves its state
        first."""
        until(lambda: not started_for(self.root))

    def stops_in_a_line(self, number: signal.Signals) -> None:
        """Send a signal, upon which all processes end, and nobody complains."""
        self.process.send_signal(number)
        said = self.ended()
        assert self.process.returncode == 128 + number
        assert said.endswith(
            "\ndreamer: stopped; run the same command again to continue from here\n"
        )
        (log,) = self.root.glob("store/runs/*/log.txt")
        for word in ("Traceback", "nanobind", "Error"):
            assert word not in said
            assert word not in log.read_text()
        self.nothing_is_left()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for number in started_for(tmp_path):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


@pytest.mark.slow
def test_a_study_whose_trainer_is_killed_and_later_its_server_ends_well(folder: Path) -> None:
    run = Run(folder, **SHORT)
    killed = trainer_of(run)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    # The server lives until it shows the second try.
    until(lambda: "Completed" in shown(run.root, "training"), run.process, run.log)
    os.kill(run.server, signal.SIGKILL)
    said = run.ended()
    report = run.root / "report" / "index.html"
    ends_well(run, time.time() - report.stat().st_mtime)
    assert said.count("tried again (1 of 1)") == 1
    points = query(run.root / "results.duckdb", "select distinct tokens from evaluations")
    assert points["tokens"].max() >= SHORT["tokens"]
    (training,) = task_runs(run.root, "training")
    assert training["run_count"] == 2
    made_of = json.loads(training["task_inputs"])["made_of"]
    assert {edge["id"] for edge in made_of}


@pytest.mark.slow
def test_a_study_outlives_its_server_that_hangs(folder: Path) -> None:
    run = Run(folder, "--until", "train", **SHORT)
    outlives_a_stopped_server(run, run.server)


@pytest.mark.slow
def test_a_study_outlives_a_server_that_the_environment_names_and_that_hangs(folder: Path) -> None:
    home = with_database(folder / "home")
    with environment({"PREFECT_HOME": str(home)}), own_server() as (server, address):
        await_server(server, address)
        run = Run(folder, "--until", "train", address=address, **SHORT)
        try:
            outlives_a_stopped_server(run, server.pid)
        finally:
            server.kill()


def outlives_a_stopped_server(run: Run, server: int) -> None:
    """Stop a server while models train, as if the server hung; the study ends well."""
    os.kill(server, signal.SIGSTOP)
    until(lambda: "train: done" in run.log.read_text(), run.process, run.log)
    done = time.time()
    run.ended()
    ends_well(run, time.time() - done)


def ends_well(run: Run, seconds: float) -> None:
    """Check that a study whose Prefect server was lost has ended with status 0.

    `seconds` passed between the end of its work and the end of the command."""
    said = run.ended()
    assert run.process.returncode == 0, said
    assert said.count("Prefect's server is lost") == 1
    assert "Traceback" not in said
    # what is copied to the results file at the end
    assert query(run.root / "results.duckdb", "select count(*) as n from steps")["n"][0] > 0
    run.nothing_is_left()
    print(f"{seconds:.0f} s from the end of the work to the end of the command")
    assert seconds < 20 * slowness()


@pytest.mark.slow
def test_runs_that_are_cancelled_killed_and_stopped_are_shown_so_and_leave_no_process(
    folder: Path,
) -> None:
    cancelled = Run(folder, **LONG)
    (flow_run,) = ask(cancelled.address, "flow_runs/filter", {})
    began = time.monotonic()
    answer = ask(
        cancelled.address,
        f"flow_runs/{flow_run['id']}/set_state",
        {"state": {"type": "CANCELLING"}},
    )
    assert answer["status"] == "ACCEPT"
    trainer = "dreamer_study.model.worker"
    until(lambda: child(cancelled.process.pid, trainer) is None)
    seconds = time.monotonic() - began
    said = cancelled.ended()
    assert cancelled.process.returncode == 1
    assert said.endswith(
        "dreamer: the run was cancelled in Prefect; run the same command again to continue\n"
    )
    cancelled.nothing_is_left()
    assert flow_states(cancelled.root) == ["CANCELLED"]
    print(f"{seconds:.0f} s from the cancellation to the end of the trainers")
    assert seconds < 10 * slowness()

    killed = Run(folder, **LONG)
    # children are in sessions of their own: they have to notice
    os.killpg(killed.process.pid, signal.SIGKILL)
    killed.process.wait()
    killed.nothing_is_left()
    assert flow_states(killed.root) == ["CANCELLED", "RUNNING"]

    stopped = Run(folder, **LONG)
    assert flow_states(stopped.root) == ["CANCELLED", "CRASHED", "RUNNING"]
    stopped.stops_in_a_line(signal.SIGINT)
    assert flow_states(stopped.root) == ["CANCELLED", "CRASHED", "CRASHED"]


@pytest.mark.slow
def test_a_study_without_prefect_tries_a_killed_trainer_again_and_stops_in_a_line(
    folder: Path,
) -> None:
    run = Run(folder, "--plain", **LONG)
    killed = trainer_of(run)
    assert killed is not None
    (progress,) = run.root.glob("store/runs/*/progress.json")
    os.kill(killed, signal.SIGKILL)
    until(lambda: trainer_of(run) not in (None, killed), run.process, run.log)
    tokens = json.loads(progress.read_text())["tokens"]
    until(lambda: json.loads(progress.read_text())["tokens"] > tokens, run.process, run.log)
    assert run.log.read_text().count("tried again (1 of 1)") == 1
    run.stops_in_a_line(signal.SIGTERM)


def slowness() -> float:
    """How many processes wait for each core of this machine, at least 1: times are those of a quiet
    machine."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))) ** 2


def trainer_of(run: Run) -> int | None:
    return child(run.process.pid, "dreamer_study.model.worker dreamer_study.model.train")


@pytest.mark.slow
def test_a_paused_run_goes_on_when_it_is_resumed_and_the_next_one_shows_its_work_as_cached(
    folder: Path,
) -> None:
    training = {"tokens": 120_000, "save_every_seconds": 0, "screening": 0}
    run = Run(folder, "--until", "train", **training)
    (flow_run,) = ask(run.address, "flow_runs/filter", {})
    place = f"flow_runs/{flow_run['id']}"
    paused = {"type": "PAUSED", "name": "Paused", "state_details": {"pause_reschedule": False}}
    ask(run.address, f"{place}/set_state", {"state": paused, "force": True})
    until(lambda: trainer_of(run) is None, run.process, run.log)
    (progress,) = run.root.glob("store/runs/*/progress.json")
    before = progress.read_bytes()
    time.sleep(3)
    assert progress.read_bytes() == before
    assert run.process.poll() is None
    ask(run.address, f"{place}/resume", {})
    said = run.ended()
    assert run.process.returncode == 0, said
    assert sorted(shown(run.root, "training")) == ["Cancelled", "Completed"]
    assert flow_states(run.root) == ["COMPLETED"]

    one_more_seed = small_study(folder, **training, seeds=[0, 1])
    log = folder / "again"
    again = start(one_more_seed, run.root, log, "--until", "train")
    again.wait(PATIENCE_SECONDS)
    assert again.returncode == 0, log.read_text()
    # the newest of a name
    states = {task["name"]: task["state_name"] for task in task_runs(run.root)}
    assert states["train LA seed 0"] == "Cached"
    assert states["train LA seed 1"] == "Completed"
    assert {state for name, state in states.items() if name.endswith("world")} == {"Cached"}


@pytest.mark.slow
def test_a_download_that_breaks_off_is_tried_again(folder: Path) -> None:
    with serving(failing={"main/train-00001-of-00002.jsonl"}) as hub:
        study = yaml.safe_load(small_study(folder).read_text())
        study["data"]["sources"].append({"name": "gsm8k", "limit": 2})
        path = folder / "with_hub.yaml"
        path.write_text(yaml.safe_dump(study))
        root, log = folder / "run", folder / "log"
        with_database(root / ".prefect")
        command = start(path, root, log, "--until", "prepare", **hub_variables(hub, folder))
        command.wait(PATIENCE_SECONDS)
    # The hub's two rows are too short to be kept, which ends the study after the download.
    assert log.read_text().count("tried again (1 of 3)") == 1
    (download,) = task_runs(root, "download")
    assert (download["run_count"], download["state_name"]) == (2, "Completed")


# A server over the database would take ten seconds of a processor to say the same.
def rows(root: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table of Prefect's database of a study, oldest first."""
    address = f"file:{root}/.prefect/prefect.db?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as database:
        database.row_factory = sqlite3.Row
        found = database.execute(f"select * from {table} order by expected_start_time")
        return [dict(row) for row in found]


def flow_states(root: Path) -> list[str]:
    """The states of the flow runs of a study."""
    return [run["state_type"] for run in rows(root, "flow_run")]


def task_runs(root: Path, kind: str = "") -> list[dict[str, Any]]:
    """The task runs of a study."""
    return [run for run in rows(root, "task_run") if run["task_key"].startswith(kind)]


def shown(root: Path, kind: str) -> list[str]:
    """Return how Prefect names the states of a study's task runs."""
    return [run["state_name"] for run in task_runs(root, kind)]
