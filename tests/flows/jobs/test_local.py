"""Jobs of this machine: who starts next, which processes stay, what is told of a failure, and that
nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import dreamer_study.flows.jobs.devices
import dreamer_study.flows.jobs.local
from dreamer_study.flows.jobs import Event, Failed, Job, Stopped, Work
from dreamer_study.flows.progress import reports
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.configuration import Compute
from dreamer_study.pipeline.errors import InputError
from tests.flows.by_hand import Heard
from tests.flows.jobs.programs import alive, events, go, job, local, process, said, use
from tests.flows.small_study import PROJECT
from tests.waiting import until


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tmp_path, monkeypatch)


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs as far as numbers go; the locks are the whole machine's, where the same test may run a
    second time."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for module in (dreamer_study.flows.jobs.devices, dreamer_study.flows.jobs.local):
        monkeypatch.setattr(module, "gpus", lambda study: 2)


def test_a_process_stays_for_the_next_job_and_each_job_has_its_log(tmp_path: Path) -> None:
    with local(tmp_path, workers=1) as jobs:
        found = events(jobs, job(tmp_path, "a"), job(tmp_path, "b"))
        events(jobs, other := job(tmp_path, "c", environment={"KIND": "other"}))
    assert [[event.kind for event in found[name]] for name in "ab"] == [["started", "finished"]] * 2
    assert process(tmp_path, "a") == process(tmp_path, "b") != process(tmp_path, "c")
    assert [len(said(tmp_path, name)) for name in "abc"] == [1, 1, 1]
    assert said(tmp_path, "c")[0][2] == other.environment["KIND"]
    assert not alive(process(tmp_path, "a"))


@pytest.mark.slow
def test_the_most_urgent_starts_next_and_nobody_overtakes_who_waits_for_several(
    tmp_path: Path,
) -> None:
    started: list[str] = []
    with local(tmp_path, workers=2) as jobs:
        waiting = [
            job(tmp_path, "late", priority=(1, 5)),
            job(tmp_path, "large", priority=(1, 0), devices=2),
            job(tmp_path, "evaluation", priority=(0,), kind="evaluation"),
            job(tmp_path, "soon", priority=(1, 1)),
        ]

        def hear(event: Event) -> None:
            started.extend([event.job.name] if event.kind == "started" else [])
            if event.kind == "finished" and event.job.name == "evaluation":
                assert started == ["first", "second", "evaluation"], (
                    "one place is free, and large wants two"
                )
                go(tmp_path, "second")

        for name in ("first", "second"):
            jobs.submit(job(tmp_path, name, waits=True))
        until(lambda: (tmp_path / "first").exists() and (tmp_path / "second").exists())
        go(tmp_path, "first")
        events(jobs, *waiting, hear=hear)
    assert started == ["first", "second", "evaluation", "large", "soon", "late"]
    assert sorted(line[3] for line in said(tmp_path, "large")) == ["0", "1"]


@pytest.mark.slow
def test_a_job_that_wants_more_than_there_is_takes_all(tmp_path: Path) -> None:
    with local(tmp_path, workers=1) as jobs:
        found = events(jobs, job(tmp_path, "a", devices=3))
    assert found["a"][-1].kind == "finished"
    assert len(said(tmp_path, "a")) == 3


def test_evaluations_are_fewer_where_memory_is_short_and_trainings_go_past_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dreamer_study.flows.jobs.local, "concurrency", lambda study: 3)
    monkeypatch.setattr(dreamer_study.flows.jobs.local, "machine_memory", lambda: 3 * 10**9)
    monkeypatch.setattr(dreamer_study.flows.jobs.local, "gpus", lambda study: 0)
    started: list[str] = []
    with local(tmp_path, workers=None) as jobs:

        def hear(event: Event) -> None:
            started.extend([event.job.name] if event.kind == "started" else [])
            if event.kind == "finished" and event.job.name == "training":
                assert set(started) == {"first", "training"}
                go(tmp_path, "first")

        evaluations = [
            job(tmp_path, name, waits=name == "first", kind="evaluation")
            for name in ("first", "second")
        ]
        events(jobs, *evaluations, job(tmp_path, "training", priority=(1,)), hear=hear)
    assert sorted(started) == ["first", "second", "training"]


def test_checkpoints_and_progress_are_told_while_a_training_runs(tmp_path: Path) -> None:
    told: list[str] = []

    def hear(event: Event) -> None:
        told.append(event.kind)
        if event.kind == "checkpoint":
            go(tmp_path, "a")

    # of an earlier start
    (tmp_path / "a.checkpoints" / "checkpoints" / "000000000003000").mkdir(parents=True)
    with local(tmp_path) as jobs:
        events(jobs, job(tmp_path, "a", "trains", waits=True), hear=hear)
    assert "progress" in told
    assert [kind for kind in told if kind != "progress"] == ["started", "checkpoint", "finished"]


def test_jobs_may_be_submitted_while_events_are_read(tmp_path: Path) -> None:
    with local(tmp_path) as jobs:
        more = [job(tmp_path, "b"), job(tmp_path, "c")]
        found = events(
            jobs,
            job(tmp_path, "a"),
            hear=lambda event: event.ends and more and jobs.submit(more.pop()),
        )
    assert {name: found[name][-1].kind for name in found} == dict.fromkeys("abc", "finished")


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("what", "error"), [("bad", InputError), ("fail", Failed), ("ends", Failed)]
)
def test_a_failure_is_told_by_the_last_line_of_its_log_and_ends_no_other_job(
    tmp_path: Path, what: str, error: type[Exception], devices: int
) -> None:
    said = {"bad": "field x: must be 1", "fail": "RuntimeError: broken", "ends": "the last word"}
    words = said[what]
    with local(tmp_path) as jobs:
        found = events(
            jobs, job(tmp_path, "a"), job(tmp_path, "b", what, devices=devices), job(tmp_path, "c")
        )
    (_, last) = found["b"]
    assert (last.kind, type(last.error)) == ("failed", error)
    assert str(last.error).endswith(words)
    if error is Failed:
        assert f"see {tmp_path / 'b.log'}: " in str(last.error)
        assert last.error.reason == words
    assert [found[name][-1].kind for name in "ac"] == ["finished"] * 2


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_process_is_told_at_once_with_what_it_said_last(
    tmp_path: Path, devices: int
) -> None:
    def hear(event: Event) -> None:
        if event.kind == "progress" and not killed and (tmp_path / "a").exists():
            killed.append(int((tmp_path / "a").read_text()))
            os.kill(killed[0], signal.SIGKILL)
            go(tmp_path, "a")  # the other rank

    killed: list[int] = []
    with local(tmp_path) as jobs:
        found = events(jobs, job(tmp_path, "a", waits=True, devices=devices), hear=hear)
    error = found["a"][-1].error
    assert isinstance(error, Failed)
    assert error.reason.startswith("killed by signal 9, its last line was: ")
    assert error.reason.endswith((tmp_path / "a.log").read_text().splitlines()[-1])


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_waits_is_replaced(tmp_path: Path) -> None:
    with local(tmp_path, workers=1) as jobs:
        events(jobs, job(tmp_path, "a"))
        os.kill(process(tmp_path, "a"), signal.SIGKILL)
        until(lambda: not alive(process(tmp_path, "a")))
        found = events(jobs, job(tmp_path, "b"))
    assert found["b"][-1].kind == "finished"
    assert process(tmp_path, "a") != process(tmp_path, "b")


@pytest.mark.slow
def test_after_a_failure_the_next_job_gets_a_new_process(tmp_path: Path) -> None:
    with local(tmp_path, workers=1) as jobs:
        events(jobs, job(tmp_path, "a"), job(tmp_path, "b", "fail"), job(tmp_path, "c"))
    assert process(tmp_path, "a") == process(tmp_path, "b") != process(tmp_path, "c")


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_stop_ends_work_idle_processes_and_what_they_started_within_seconds(
    tmp_path: Path, devices: int
) -> None:
    with local(tmp_path, workers=3) as jobs:
        events(jobs, job(tmp_path, "idle"))
        at_work = [
            job(tmp_path, "saves", "saves", waits=True, devices=devices),
            job(tmp_path, "parent", "parent", waits=True),
        ]
        for one in (*at_work, job(tmp_path, "waits", priority=(9,), devices=3)):
            jobs.submit(one)
        until(lambda: all((tmp_path / name).exists() for name in ("saves", "parent")))
        before = time.monotonic()
        jobs.stop()
        assert time.monotonic() - before < 15, "no grace is waited for in vain"
        assert (tmp_path / "saves.saved").exists()
        ended = [
            process(tmp_path, "idle"),
            *(int((tmp_path / name).read_text()) for name in ("saves", "parent")),
        ]
        ended.append(int((tmp_path / "parent.grandchild").read_text()))
        until(lambda: not any(map(alive, ended)))
        ends = (event for event in jobs.events() if event.ends)
        assert [type(next(ends).error) for _ in at_work] == [Stopped, Stopped]
    assert not (tmp_path / "waits.log").exists()


@pytest.mark.slow
def test_who_does_not_listen_is_killed_after_the_grace(tmp_path: Path) -> None:
    with local(tmp_path) as jobs:
        jobs.submit(job(tmp_path, "a", "stubborn", waits=True))
        until((tmp_path / "a").exists)
        jobs.stop(grace=0.5)
        until(lambda: not alive(int((tmp_path / "a").read_text())))


def test_nothing_starts_after_a_stop(tmp_path: Path) -> None:
    with local(tmp_path) as jobs:
        jobs.stop()
        jobs.submit(job(tmp_path, "a"))
        jobs.submit(job(tmp_path, "b", devices=2))
        time.sleep(0.2)
    assert not list(tmp_path.glob("*.log"))


PARENT = """
import sys
from pathlib import Path
import pytest
from tests.flows.by_hand import Heard
from tests.flows.jobs.programs import events, job, local, use
folder = Path(sys.argv[1])
use(folder, pytest.MonkeyPatch())
with local(folder, 3) as jobs:
    events(jobs, job(folder, "idle"))
    events(jobs, job(folder, "alone", waits=True), job(folder, "ranks", waits=True, devices=2))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_a_killed_parent_takes_its_children_along(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    parent = subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)})
    until(lambda: all((tmp_path / name).exists() for name in ("alone", "ranks")), parent)
    until(lambda: len(said(tmp_path, "ranks")) == 2, parent)
    children = [
        process(tmp_path, "idle"),
        process(tmp_path, "alone"),
        *(int(line[0]) for line in said(tmp_path, "ranks")),
    ]
    assert all(map(alive, children[1:]))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until(lambda: not any(map(alive, children)))


@pytest.mark.slow
@pytest.mark.usefixtures("two_gpus")
def test_jobs_see_the_gpus_that_they_hold_and_their_processes_end(tmp_path: Path) -> None:
    names = ("a", "b", "c")

    def hear(event: Event) -> None:
        if all((tmp_path / name).exists() for name in "ab"):
            go(tmp_path, *names)

    with local(tmp_path, workers=None) as jobs:
        both, *single = (
            job(tmp_path, "both", devices=2, priority=(9,)),
            *(job(tmp_path, n, waits=True) for n in names),
        )
        events(jobs, *single, both, hear=hear)
        assert not any(alive(process(tmp_path, name)) for name in (*names, "both"))
    assert {said(tmp_path, name)[0][1] for name in "ab"} == {"0", "1"}
    assert [line[1] for line in said(tmp_path, "both")] == ["0,1", "0,1"]
    assert len({process(tmp_path, name) for name in names}) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("two_gpus")
def test_small_trainings_share_a_gpu(tmp_path: Path) -> None:
    names = "abcd"

    def hear(event: Event) -> None:
        if all((tmp_path / name).exists() for name in names):  # all four at once
            go(tmp_path, *names)

    with local(tmp_path, workers=None, compute={"per_gpu": 2}) as jobs:
        events(jobs, *(job(tmp_path, name, waits=True) for name in names), hear=hear)
    assert sorted(said(tmp_path, name)[0][1] for name in names) == ["0", "0", "1", "1"]


@pytest.mark.usefixtures("two_gpus")
def test_an_evaluator_stays_for_the_next_evaluation_on_its_gpu(tmp_path: Path) -> None:
    with local(tmp_path, workers=1) as jobs:
        for name in "abc":
            events(jobs, job(tmp_path, name, kind="evaluation"))
    processes = {process(tmp_path, name): said(tmp_path, name)[0][1] for name in "abc"}
    assert list(processes.values()) == ["0"]


@pytest.mark.slow
@pytest.mark.usefixtures("two_gpus")
def test_studies_side_by_side_share_the_gpus_of_a_machine(tmp_path: Path) -> None:
    """No job of one study starts before enough GPUs are free, and one that waits for two holds
    none."""
    with local(tmp_path, workers=None) as here, local(tmp_path, workers=None) as there:
        here.submit(job(tmp_path, "first", waits=True))
        until((tmp_path / "first").exists)
        waiting = threading.Thread(target=events, args=[there, job(tmp_path, "both", devices=2)])
        waiting.start()
        time.sleep(0.3)
        assert not (tmp_path / "both.log").exists()
        here.submit(job(tmp_path, "second"))
        until(lambda: (tmp_path / "second.log").exists())
        go(tmp_path, "first")
        events(here)
        waiting.join()
    assert {said(tmp_path, name)[0][1] for name in ("first", "second")} == {"0", "1"}
    assert [line[1] for line in said(tmp_path, "both")] == ["0,1", "0,1"]


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.slow
def test_a_job_that_waits_for_a_gpu_hears_of_a_stop(tmp_path: Path) -> None:
    with local(tmp_path, workers=None) as here, local(tmp_path, workers=None) as there:
        here.submit(job(tmp_path, "both", waits=True, devices=2))
        until((tmp_path / "both").exists)
        there.submit(job(tmp_path, "waits"))
        there.stop()
        (told,) = there.events()
    assert isinstance(told.error, Stopped)


def steps_with(retries: int) -> Steps:
    return Steps(Compute(retries=retries))


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_process_that_is_killed_is_tried_again_and_the_study_hears_of_one_job(
    tmp_path: Path, devices: int
) -> None:
    pids: list[int] = []

    def hear(event: Event) -> None:
        if event.kind != "progress" or not (tmp_path / "a").exists():
            return
        pid = int((tmp_path / "a").read_text())
        if not pids:
            pids.append(pid)
            os.kill(pid, signal.SIGKILL)
        if pid not in pids:
            pids.append(pid)
        if len(said(tmp_path, "a")) == 2 * devices:
            go(tmp_path, "a")

    with local(tmp_path) as jobs:
        jobs.do = steps_with(retries=1).do_job
        found = events(jobs, job(tmp_path, "a", waits=True, devices=devices), hear=hear)
    assert [event.kind for event in found["a"]] == ["started", "finished"]
    assert len(said(tmp_path, "a")) == 2 * devices, "each try is in the log"


@pytest.mark.parametrize(("retries", "tries"), [(0, 1), (2, 3)])
def test_a_process_that_fails_is_tried_as_often_as_the_study_says(
    tmp_path: Path, retries: int, tries: int
) -> None:
    with local(tmp_path) as jobs:
        jobs.do = steps_with(retries).do_job
        found = events(jobs, job(tmp_path, "a", "fail"))
    assert isinstance(found["a"][-1].error, Failed)
    assert (tmp_path / "a.log").read_text().count("RuntimeError: broken") == tries


@pytest.mark.parametrize("what", ["bad", "hopeless"])
def test_bad_input_and_what_would_fail_again_is_tried_once(tmp_path: Path, what: str) -> None:
    with local(tmp_path) as jobs:
        jobs.do = steps_with(retries=3).do_job
        found = events(jobs, job(tmp_path, "a", what))
    assert found["a"][-1].kind == "failed"
    assert len((tmp_path / "a.log").read_text().splitlines()) == 2, "the process, and its reason"


@pytest.mark.slow
def test_a_process_that_writes_nothing_is_ended_and_tried_again(tmp_path: Path) -> None:
    with local(tmp_path, compute={"silence": 12}) as jobs:
        jobs.do = steps_with(retries=1).do_job
        found = events(jobs, job(tmp_path, "a", waits=True))
    error = found["a"][-1].error
    assert isinstance(error, Failed)
    assert "wrote nothing for" in str(error)
    pids = [int(line[0]) for line in said(tmp_path, "a")]
    assert len(set(pids)) == 2
    assert not any(map(alive, pids))


def test_a_pause_ends_what_runs_and_starts_nothing_until_the_end_of_the_pause(
    tmp_path: Path,
) -> None:
    heard: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "paused":
            heard.append(event.job.name)

    with local(tmp_path, workers=1) as jobs:
        jobs.do = steps_with(retries=1).do_job
        jobs.submit(job(tmp_path, "saves", "saves", waits=True))
        jobs.submit(job(tmp_path, "waits", priority=(9,)))
        until((tmp_path / "saves").exists)
        first = int((tmp_path / "saves").read_text())
        jobs.pause()
        assert not alive(first)
        assert (tmp_path / "saves.saved").exists()
        time.sleep(0.3)
        assert not (tmp_path / "waits.log").exists()
        go(tmp_path, "saves")
        jobs.resume()
        found = events(jobs, hear=hear)
    assert heard == ["saves"], "a pause is no failure, and no try"
    assert [event.kind for event in found["saves"]] == ["started", "paused", "started", "finished"]
    assert found["waits"][-1].kind == "finished"


def test_a_job_is_done_in_the_context_of_who_opened_the_jobs(tmp_path: Path) -> None:
    """So that what its thread reports is heard by whoever listens to this study."""
    with reports.listening(Heard()) as heard, local(tmp_path, workers=1) as jobs:

        def do(one: Job, work: Work) -> None:
            reports.report(one.name, 1.0, "done")
            work(lambda: None)

        jobs.do = do
        events(jobs, job(tmp_path, "a"))
    assert heard.reports == [("a", 1.0, "done")]
