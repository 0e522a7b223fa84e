"""A study on a Dask cluster that was started by hand: equal rows, whoever is killed meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from dreamer_study.flows.commands.cli import main
from tests.faults.processes import child, start, started_for, trains
from tests.flows.by_hand import study_file
from tests.flows.test_whole_study import same_tables
from tests.waiting import PATIENCE_SECONDS, until

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


def study(folder: Path, cluster: str | None) -> Path:
    changes = {
        "training": {"tokens": 40_000, "checkpoints": 1},
        "evaluation": {"limit": 5, "introspect": False},
    }
    return study_file(
        folder, models={"variants": ["LA", "DR"]}, compute={"cluster": cluster}, **changes
    )


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study on this machine."""
    folder = tmp_path_factory.mktemp("calm")
    assert main(["run", str(study(folder, None)), "--root", str(folder / "run"), "--plain"]) == 0
    return folder / "run"


class Cluster:
    """A scheduler and two workers, as docs/scale.md starts them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, list[subprocess.Popen[bytes]]()
        self.scheduler = self._start(
            "scheduler", "--port", "0", "--scheduler-file", str(folder / "scheduler.json")
        )
        until((folder / "scheduler.json").exists, self.scheduler)
        self.address = yaml.safe_load((folder / "scheduler.json").read_text())["address"]
        self.add_workers()

    def add_workers(self) -> None:
        for number in range(2):
            options = (
                self.address,
                "--nthreads",
                "1",
                "--name",
                f"worker-{number}",
                "--no-dashboard",
            )
            self.workers.append(self._start("worker", *options, log=f"worker-{number}"))

    def start_scheduler_again(self) -> None:
        self.scheduler = self._start("scheduler", "--port", self.address.rpartition(":")[2])
        self.add_workers()

    def _start(self, what: str, *options: str, log: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *options]
        with (self.folder / f"{log or what}.txt").open("ab") as output:
            return subprocess.Popen(
                command, stdout=output, stderr=output, cwd=self.folder, start_new_session=True
            )

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.terminate()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


def run(cluster: Cluster) -> subprocess.Popen[bytes]:
    path = study(cluster.folder, cluster.address)
    trusted = ("--plain", "--trust-code")
    return start(path, cluster.folder / "run", cluster.folder / "log.txt", *trusted)


def said(cluster: Cluster, log: str = "log") -> str:
    return (cluster.folder / f"{log}.txt").read_text()


def at_work(cluster: Cluster) -> bool:
    return bool(started_for(cluster.folder, "dreamer_study.model.train"))


def trains_with_data_of(calm: Path, cluster: Cluster) -> subprocess.Popen[bytes]:
    """Run a study whose data are prepared until models train."""
    store, made_later = (
        cluster.folder / "run" / "store",
        shutil.ignore_patterns("runs", "evaluations"),
    )
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(calm / "store", store, ignore=made_later)
    command = run(cluster)
    until(
        lambda: trains(cluster.folder / "run") and at_work(cluster),
        command,
        cluster.folder / "log.txt",
    )
    return command


def test_a_worker_that_dies_in_curation_or_training_has_its_work_done_again(
    cluster: Cluster, calm: Path
) -> None:
    """Both workers do the work, and the rows are those of one machine."""
    command = run(cluster)
    until(
        lambda: list(cluster.folder.glob("run/store/*/*.partial")),
        command,
        cluster.folder / "log.txt",
        pause=0.01,
    )
    os.kill(child(cluster.workers[0].pid, "spawn_main"), signal.SIGKILL)
    until(
        lambda: trains(cluster.folder / "run") and at_work(cluster),
        command,
        cluster.folder / "log.txt",
        pause=0.01,
    )
    os.kill(
        psutil.Process(started_for(cluster.folder, "dreamer_study.model.train")[0]).ppid(),
        signal.SIGKILL,
    )
    assert command.wait(PATIENCE_SECONDS) == 0, said(cluster)
    same_tables(calm, cluster.folder / "run")
    logs = [said(cluster, f"worker-{number}") for number in range(2)]
    assert all("distributed.dreamer" in log for log in logs)
    for name in ("train LA seed 0", "train DR seed 0", "evaluate LA seed 0 at "):
        assert any(name in log for log in logs), name


def test_a_lost_scheduler_is_one_line_and_the_same_command_goes_on(
    cluster: Cluster, calm: Path
) -> None:
    command = trains_with_data_of(calm, cluster)
    cluster.scheduler.kill()
    assert command.wait(PATIENCE_SECONDS) == 1
    last = said(cluster).splitlines()[-1]
    assert (
        last
        == "dreamer: Dask's scheduler is lost; when it runs again, the same command continues from here"
    )
    assert "Traceback" not in said(cluster)
    until(lambda: not at_work(cluster))
    cluster.start_scheduler_again()
    assert run(cluster).wait(PATIENCE_SECONDS) == 0, said(cluster)
    same_tables(calm, cluster.folder / "run")


def test_the_jobs_of_a_command_that_ends_end_within_seconds(cluster: Cluster, calm: Path) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        command = trains_with_data_of(calm, cluster)
        command.send_signal(number)
        before = time.monotonic()
        until(lambda: not at_work(cluster))
        assert time.monotonic() - before < 30, number
        command.wait(PATIENCE_SECONDS)
        assert all(worker.poll() is None for worker in cluster.workers)
