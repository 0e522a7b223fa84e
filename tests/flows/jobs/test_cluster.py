"""Jobs on a Dask cluster of pretended GPUs: which start, on which devices, and what is refused at
once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.jobs import Event, Failed, Jobs
from dreamer_study.flows.jobs.cluster import open_jobs
from dreamer_study.flows.running.steps import Steps
from dreamer_study.pipeline.errors import InputError
from tests.flows.by_hand import tiny
from tests.flows.jobs.programs import alive, events, go, job, process, said, use
from tests.waiting import until

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow  # starting Dask's workers takes seconds

Cluster = Callable[..., str]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Starts a scheduler and its workers, and returns the address. Locks of devices are those of
    the test."""
    use(tmp_path, monkeypatch)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    started: list[Any] = []

    def start(**options: Any) -> str:
        wanted = {"n_workers": 1, "threads_per_worker": 8, "dashboard_address": None} | options
        started.append(distributed.LocalCluster(**wanted))
        return started[-1].scheduler_address

    yield start
    for one in started:
        one.close()


@contextmanager
def opened(folder: Path, address: str, per_gpu: int = 1, **training: Any) -> Iterator[Jobs]:
    compute = {"cluster": address, "per_gpu": per_gpu}
    with open_jobs(tiny(folder / "run", compute=compute, training=training)) as (_, jobs):
        yield jobs


def test_trainings_of_several_gpus_are_placed_by_priority_and_no_gpu_is_given_twice(
    tmp_path: Path, cluster: Cluster
) -> None:
    started: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "started":
            started.append(event.job.name)
            if {"four", "two", "also two"} <= set(started):
                go(tmp_path, "four")
        if event.kind == "finished" and event.job.name == "urgent":
            assert not {"late", "one"} & set(started), "nobody overtakes who waits for several"
            go(tmp_path, "two", "also two")

    with opened(tmp_path, cluster(resources={"GPU": 8}), device="cuda") as jobs:
        assert jobs.gpus == (8,)
        waiting = [
            job(tmp_path, "four", waits=True, devices=4, priority=(0,)),
            job(tmp_path, "two", waits=True, devices=2, priority=(1, 0, 0)),
            job(tmp_path, "also two", waits=True, devices=2, priority=(1, 0, 1)),
            job(tmp_path, "late", priority=(1, 9, -1), devices=5),
            job(tmp_path, "urgent", priority=(1, 9, -2), devices=4),
            job(tmp_path, "one", priority=(1, 9, 0)),
        ]
        events(jobs, *waiting, hear=hear)
    assert set(started[:3]) == {"four", "two", "also two"}
    assert started[3] == "urgent"
    assert set(started[4:]) == {"late", "one"}
    of = {name: said(tmp_path, name)[0][1].split(",") for name in started}
    assert sorted(of["four"] + of["two"] + of["also two"]) == [str(number) for number in range(8)]
    assert sorted(of["urgent"]) == sorted(of["four"])
    assert len(said(tmp_path, "four")) == 4


def test_small_trainings_share_the_gpu_of_a_worker(tmp_path: Path, cluster: Cluster) -> None:
    def hear(event: Event) -> None:
        if all((tmp_path / name).exists() for name in "abc"):  # all at once
            go(tmp_path, *"abc")

    with opened(tmp_path, cluster(resources={"GPU": 1}), device="cuda", per_gpu=3) as jobs:
        events(jobs, *(job(tmp_path, name, waits=True) for name in "abc"), hear=hear)
    assert [said(tmp_path, name)[0][1] for name in "abc"] == ["0"] * 3


@pytest.mark.parametrize(
    ("resources", "training", "words"),
    [
        (
            {"GPU": 8},
            {"ranks": 16},
            "training.ranks is 16, but no machine of the study has more than 8 GPUs",
        ),
        ({}, {"device": "cuda"}, "no worker of .* offers GPUs; start workers with"),
    ],
)
def test_what_no_worker_can_do_is_refused(
    tmp_path: Path,
    cluster: Cluster,
    resources: dict[str, int],
    training: dict[str, Any],
    words: str,
) -> None:
    address = cluster(resources=resources)
    with (
        pytest.raises(InputError, match=words),
        opened(tmp_path, address, **{"device": "auto"} | training),
    ):
        pass
    assert not list(tmp_path.rglob(".jobs-*"))


def test_a_store_that_workers_do_not_see_is_refused(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = cluster()
    monkeypatch.setattr("os.path.exists", lambda path: False)  # which the workers are asked to call
    with pytest.raises(InputError, match="does not see"), opened(tmp_path, address):
        pass


def test_a_failure_is_the_same_failure_and_ends_no_other_job(
    tmp_path: Path, cluster: Cluster
) -> None:
    with opened(tmp_path, cluster()) as jobs:
        found = events(
            jobs, job(tmp_path, "a"), job(tmp_path, "b", "fail"), job(tmp_path, "c", "bad")
        )
        assert {name: found[name][-1].kind for name in "abc"} == {
            "a": "finished",
            "b": "failed",
            "c": "failed",
        }
        assert isinstance(found["b"][-1].error, Failed)
        assert found["b"][-1].error.reason == "RuntimeError: broken"
        assert str(found["c"][-1].error) == "field x: must be 1"
        assert len(said(tmp_path, "a")[0]) == 3, "no job sees a GPU that it has not asked for"


def test_a_stop_ends_what_runs_and_starts_nothing_more(tmp_path: Path, cluster: Cluster) -> None:
    with opened(tmp_path, cluster(threads_per_worker=1)) as jobs:
        jobs.submit(job(tmp_path, "saves", "saves", waits=True))
        jobs.submit(job(tmp_path, "later"))
        until(lambda: (tmp_path / "saves").exists())
        jobs.stop()
        assert (tmp_path / "saves.saved").exists()
        assert not alive(process(tmp_path, "saves"))
        assert [type(event.error).__name__ for event in jobs.events() if event.ends] == [
            "Stopped"
        ] * 2
    assert not (tmp_path / "later.log").exists()


def test_a_killed_process_is_tried_again_on_its_worker(tmp_path: Path, cluster: Cluster) -> None:
    pids: list[int] = []

    def hear(event: Event) -> None:
        if event.kind != "progress" or not (tmp_path / "a").exists():
            return
        pid = int((tmp_path / "a").read_text())
        if not pids:
            os.kill(pid, signal.SIGKILL)
        if pid not in pids:
            pids.append(pid)
        if len(pids) == 2:
            go(tmp_path, "a")

    with opened(tmp_path, cluster(n_workers=2)) as jobs:
        jobs.do = Steps().do_job
        found = events(jobs, job(tmp_path, "a", waits=True), hear=hear)
    assert [event.kind for event in found["a"]] == ["started", "finished"]


def test_a_pause_ends_what_runs_on_workers_until_its_end(tmp_path: Path, cluster: Cluster) -> None:
    with opened(tmp_path, cluster(threads_per_worker=1)) as jobs:
        jobs.do = Steps().do_job
        jobs.submit(job(tmp_path, "saves", "saves", waits=True))
        jobs.submit(job(tmp_path, "waits", priority=(9,)))
        until((tmp_path / "saves").exists)
        first = int((tmp_path / "saves").read_text())
        jobs.pause()
        assert not alive(first)
        assert (tmp_path / "saves.saved").exists()
        assert not (tmp_path / "waits.log").exists()
        go(tmp_path, "saves")
        jobs.resume()
        found = events(jobs)
    assert [event.kind for event in found["saves"]][-2:] == ["started", "finished"]
    assert found["waits"][-1].kind == "finished"
    assert not list(tmp_path.rglob(".jobs-*"))
