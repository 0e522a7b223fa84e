"""`dreamer run` in Prefect: a lost server, a cancellation and a kill end as they should, and
nothing is left over."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
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
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_study_outlives_its_server(folder: Path, number: signal.Signals) -> None:
    run = Run(folder, **SHORT)
    os.kill(run.server, number)
    ends_well(run)


@pytest.mark.slow
def test_a_study_outlives_a_server_that_the_environment_names_and_that_hangs(
    folder: Path, tmp_path: Path
) -> None:
    home = with_database(tmp_path / "home")
    with environment({"PREFECT_HOME": str(home)}), own_server() as (server, address):
        await_server(server, address)
        run = Run(folder, address=address, **SHORT)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            ends_well(run)
        finally:
            server.kill()


def ends_well(run: Run) -> None:
    """Check that a study whose Prefect server was lost ends with status 0, soon after its
    report."""
    said, report = run.ended(), run.root / "report" / "index.html"
    seconds = time.time() - report.stat().st_mtime
    assert run.process.returncode == 0, said
    assert said.count("Prefect's server is lost") == 1
    assert "Traceback" not in said
    assert query(run.root / "results.duckdb", "select count(*) as n from evaluations")["n"][0] > 0
    run.nothing_is_left()
    print(f"{seconds:.0f} s from the report to the end of the command")
    assert seconds < 20 * slowness()


@pytest.mark.slow
def test_a_cancelled_run_ends_and_is_shown_as_cancelled(folder: Path) -> None:
    run = Run(folder, **LONG)
    (flow_run,) = ask(run.address, "flow_runs/filter", {})
    began = time.monotonic()
    answer = ask(
        run.address, f"flow_runs/{flow_run['id']}/set_state", {"state": {"type": "CANCELLING"}}
    )
    assert answer["status"] == "ACCEPT"
    trainer = "dreamer_study.model.worker"
    until(lambda: child(run.process.pid, trainer) is None)
    seconds = time.monotonic() - began
    said = run.ended()
    assert run.process.returncode == 1
    assert said.endswith(
        "dreamer: the run was cancelled in Prefect; run the same command again to continue\n"
    )
    run.nothing_is_left()
    assert flow_states(run.root) == ["CANCELLED"]
    print(f"{seconds:.0f} s from the cancellation to the end of the trainers")
    assert seconds < 10 * slowness()


@pytest.mark.slow
def test_a_killed_command_leaves_no_process_and_its_flow_run_is_crashed_at_the_next_start(
    folder: Path,
) -> None:
    run = Run(folder, **LONG)
    # children are in sessions of their own: they have to notice
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    run.nothing_is_left()
    assert flow_states(run.root) == ["RUNNING"]
    again = Run(folder, **LONG)
    assert sorted(one["state_type"] for one in ask(again.address, "flow_runs/filter", {})) == [
        "CRASHED",
        "RUNNING",
    ]
    again.stops_in_a_line(signal.SIGTERM)


@pytest.mark.slow
def test_a_signal_while_models_train_is_one_line(folder: Path) -> None:
    run = Run(folder, **LONG)
    run.stops_in_a_line(signal.SIGINT)
    assert flow_states(run.root) == ["CRASHED"]


def flow_states(root: Path) -> list[str]:
    """The states of the flow runs of an ended study, by a server over its database."""
    with environment({"PREFECT_HOME": str(root / ".prefect")}), own_server() as (server, address):
        await_server(server, address)
        return [one["state_type"] for one in ask(address, "flow_runs/filter", {})]


def slowness() -> float:
    """How many processes wait for each core of this machine, at least 1: times are those of a quiet
    machine."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))) ** 2


def trainer_of(run: Run) -> int | None:
    return child(run.process.pid, "dreamer_study.model.worker dreamer_study.model.train")


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--plain",)])
def test_a_killed_trainer_is_tried_again(folder: Path, options: tuple[str, ...]) -> None:
    run = Run(folder, *options, **SHORT)
    killed = trainer_of(run)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    said = run.ended()
    assert run.process.returncode == 0, said
    assert said.count("tried again (1 of 1)") == 1
    rows = query(run.root / "results.duckdb", "select distinct tokens from evaluations")
    assert rows["tokens"].max() >= SHORT["tokens"]
    if not options:
        (training,) = task_runs(run.root, "training")
        assert (training["run_count"], training["state_name"]) == (2, "Completed")
        assert {edge["id"] for edge in training["task_inputs"]["made_of"]}


@pytest.mark.slow
def test_a_paused_run_trains_nothing_until_it_is_resumed(folder: Path) -> None:
    run = Run(folder, tokens=120_000, save_every_seconds=0)
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
    names = [task["state_name"] for task in task_runs(run.root, "training")]
    assert sorted(names) == ["Cancelled", "Completed"]
    assert flow_states(run.root) == ["COMPLETED"]


@pytest.mark.slow
def test_a_second_run_with_one_more_seed_shows_what_the_store_holds_as_cached(
    folder: Path,
) -> None:
    every_seed = {"tokens": 12_000, "save_every_seconds": 0, "screening": 0}
    assert Run(folder, **every_seed).ended()
    study = small_study(folder, **every_seed, seeds=[0, 1])
    root, log = folder / "run", folder / "again"
    again = start(study, root, log)
    again.wait(PATIENCE_SECONDS)
    assert again.returncode == 0, log.read_text()
    states = {task["name"]: task["state_name"] for task in task_runs(root)}  # the newest of a name
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
        command = start(path, root, log, "--until", "prepare", **hub_variables(hub, folder))
        command.wait(PATIENCE_SECONDS)
    # The hub's two rows are too short to be kept, which ends the study after the download.
    assert log.read_text().count("tried again (1 of 3)") == 1
    (download,) = task_runs(root, "download")
    assert (download["run_count"], download["state_name"]) == (2, "Completed")


def task_runs(root: Path, kind: str = "") -> list[dict[str, Any]]:
    """The task runs of an ended study, oldest first, by a server over its database."""
    with environment({"PREFECT_HOME": str(root / ".prefect")}), own_server() as (server, address):
        await_server(server, address)
        runs = ask(address, "task_runs/filter", {"sort": "EXPECTED_START_TIME_ASC", "limit": 200})
    return [run for run in runs if run["task_key"].startswith(kind)]
