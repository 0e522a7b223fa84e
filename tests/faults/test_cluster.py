"""A study on a Dask cluster that was started by hand: equal rows, whoever is killed meanwhile."""

from __future__ import annotations

import os
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
from tests.faults.processes import child, start, started_for
from tests.flows.by_hand import study_file
from tests.flows.test_whole_study import same_tables
from tests.waiting import PATIENCE_SECONDS, until

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


def study(folder: Path, cluster: str | None) -> Path:
    changes = {
        # long enough for four acts, each of which waits for a state, where a core trains 50,000
        # tokens a second
        "training": {"tokens": 200_000, "checkpoints": 1, "save_every_seconds": 0.2},
        "evaluation": {"limit": 5, "introspect": False},
    }
    return study_file(
        folder, models={"variants": ["LA", "DR"]}, compute={"cluster": cluster}, **changes
    )


# The report computes nothing, and takes a third of a study.
WITHOUT_REPORT = ("--plain", "--until", "evaluate")


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
    options = (*WITHOUT_REPORT, "--trust-code")
    return start(path, cluster.folder / "run", log_of(cluster), *options)


def log_of(cluster: Cluster) -> Path:
    return cluster.folder / "log.txt"


def said(cluster: Cluster, log: str = "log") -> str:
    return (cluster.folder / f"{log}.txt").read_text()


def trainers(cluster: Cluster) -> list[int]:
    return started_for(cluster.folder, "dreamer_study.model.train")


def states(cluster: Cluster) -> set[Path]:
    """The states that trainings have saved."""
    return set(cluster.folder.glob("run/store/runs/*/state/*/values.json"))


def until_models_train(
    cluster: Cluster, command: subprocess.Popen[bytes], before: set[Path]
) -> None:
    """Wait until a training has saved a state that was not there before, and continues."""
    until(
        lambda: states(cluster) - before and trainers(cluster),
        command,
        log_of(cluster),
        pause=0.01,
    )


def jobs_end_within_seconds(
    cluster: Cluster, command: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    """End a command; so do its jobs, and the workers live."""
    command.send_signal(number)
    began = time.monotonic()
    until(lambda: not trainers(cluster))
    assert time.monotonic() - began < 30, number
    command.wait(PATIENCE_SECONDS)
    assert all(worker.poll() is None for worker in cluster.workers)


def test_commands_workers_and_a_scheduler_that_die_change_no_row(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Each act starts the same command once more, which continues where the last one was;
    both workers do the work, and the rows are those of one machine."""
    # A worker dies in curation, whose work is done again; the command is stopped in training.
    command = run(cluster)
    until(
        lambda: list(cluster.folder.glob("run/store/*/*.partial")),
        command,
        log_of(cluster),
        pause=0.01,
    )
    os.kill(child(cluster.workers[0].pid, "spawn_main"), signal.SIGKILL)
    until_models_train(cluster, command, before=set())
    jobs_end_within_seconds(cluster, command, signal.SIGINT)

    # The command is killed in training.
    before = states(cluster)
    command = run(cluster)
    until_models_train(cluster, command, before)
    jobs_end_within_seconds(cluster, command, signal.SIGKILL)

    # The scheduler is lost in training.
    before = states(cluster)
    command = run(cluster)
    until_models_train(cluster, command, before)
    cluster.scheduler.kill()
    assert command.wait(PATIENCE_SECONDS) == 1
    last = said(cluster).splitlines()[-1]
    assert (
        last
        == "dreamer: Dask's scheduler is lost; when it runs again, the same command continues from here"
    )
    assert "Traceback" not in said(cluster)
    until(lambda: not trainers(cluster))
    cluster.start_scheduler_again()

    # A worker dies while a model trains, and another worker continues the training.
    before = states(cluster)
    command = run(cluster)
    until_models_train(cluster, command, before)
    os.kill(psutil.Process(trainers(cluster)[0]).ppid(), signal.SIGKILL)
    assert command.wait(PATIENCE_SECONDS) == 0, said(cluster)

    calm = tmp_path / "calm"
    calm.mkdir()
    command = ["run", str(study(calm, None)), "--root", str(calm / "run"), *WITHOUT_REPORT]
    assert main(command) == 0
    same_tables(calm / "run", cluster.folder / "run")
    logs = [said(cluster, f"worker-{number}") for number in range(2)]
    assert all("distributed.dreamer" in log for log in logs)
    for name in ("train LA seed 0", "train DR seed 0", "evaluate LA seed 0 at "):
        assert any(name in log for log in logs), name
