"""Who runs a study, how far it is, and what is silent."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dreamer_study.flows.jobs import Event, Job
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.disk import folder_size
from dreamer_study.flows.progress.reports import silence
from dreamer_study.flows.progress.study_lock import only_run, runs_elsewhere
from dreamer_study.flows.running.curation_warnings import say
from dreamer_study.flows.running.job_progress import Followed
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.parallel import at_once
from tests.flows.by_hand import Heard, tiny
from tests.flows.small_study import PROJECT, TINY


def test_what_has_vanished_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("nowhere")  # listed, and not there when it is looked at
    (tmp_path / "here").write_text("12345")
    assert folder_size(tmp_path) == 5


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC, errno.EIO])
def test_a_standard_error_that_fails_ends_no_work(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Its reader has gone (`2>&1 | tee` that was killed), or the disk is full."""

    def fail(*_: str) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(
        sys, "stderr", SimpleNamespace(write=fail, flush=fail, isatty=lambda: False)
    )
    with reports.listening(reports.Lines()), reports.listening(Heard()) as heard:
        reports.report("train", 0.5, "half")
        say(["a stage lost much"])
    assert heard.reports == [("train", 0.5, "half")], "the other listeners are told"


def test_plain_lines_tell_of_a_failure_once_and_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with reports.listening(reports.Lines()):
        for words in ("0 of 10 checkpoints", "failed: no memory", "failed: no memory"):
            reports.report("evaluate", 0.0, words)
    assert [line.split("%  ")[1] for line in capsys.readouterr().err.splitlines()] == [
        "0 of 10 checkpoints",
        "failed: no memory",
    ]


def test_verbose_lines_repeat_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(reports.time, "monotonic", lambda: now[0])
    with reports.writing(reports.VERBOSE), reports.listening(reports.Lines()):
        for fraction, words in ((0, "starting"), (0, "starting"), (0.01, "a"), (0.01, "b")):
            now[0] += 1.5
            reports.report("train", fraction, words)
    said = [line.split("%  ")[1] for line in capsys.readouterr().err.splitlines()]
    assert said == ["starting", "a", "b"]


def test_a_listener_that_cannot_write_ends_no_work() -> None:
    class Full:
        def update(self, *_: object) -> None:
            raise OSError(errno.ENOSPC, "no")

    with reports.listening(Full()), reports.listening(Heard()) as heard:
        reports.report("train", 1.0)
    assert heard.reports == [("train", 1.0, "")]


@pytest.mark.parametrize(
    ("fraction", "shown"), [(-1, 0), (0.5, 0.5), (0.999, 0.99), (1, 1), (1.2, 1)]
)
def test_what_goes_on_is_never_shown_as_done(fraction: float, shown: float) -> None:
    with reports.listening(Heard()) as heard:
        reports.report("evaluate", fraction)
    assert heard.reports == [("evaluate", shown, "")]


class Clock:
    """The time that `silence` sees, which stands still but for `wait`."""

    def __init__(self) -> None:
        self.now = self.began = float(int(time.time()))

    def time(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def write(self, path: Path, age: float) -> None:
        """Write a progress file of this age at the time at which the test began."""
        path.write_text(json.dumps({"tokens": 5, "process": 4711, "machine": "gpu07"}))
        os.utime(path, (self.began - age,) * 2)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(reports, "time", stopped)
    return stopped


@pytest.mark.parametrize(("kind", "rest"), [("training", 60), ("evaluation", 600)])
def test_a_minute_without_progress_is_silence_and_an_evaluation_may_rest_longer(
    tmp_path: Path, clock: Clock, kind: str, rest: int
) -> None:
    path = tmp_path / "progress.json"
    assert silence(path, kind, math.inf) == ""  # it waits for its turn
    clock.write(path, age=rest - 10)
    assert silence(path, kind, 0.0) == ""
    clock.write(path, age=rest + 10)
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
    assert silence(path, kind, 0.0) == f"stalled since {at}, process 4711 on gpu07"
    assert silence(path, kind, clock.now - rest + 10) == ""
    # the file is of an earlier process
    assert silence(path, kind, clock.now - rest - 5).endswith("process unknown")


def test_a_job_is_watched_from_its_start_to_its_end(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "run").mkdir()
    # what was written an hour ago says nothing
    clock.write(tmp_path / "run" / "progress.json", age=3600)
    job = Job(
        "training",
        "train LA-2 seed 0",
        "dreamer_study.model.train",
        (),
        tmp_path / "run",
        tmp_path / "log.txt",
        goal=10,
    )
    followed = Followed(SimpleNamespace(study=tiny(tmp_path), runs=[]))
    with reports.listening(Heard()) as heard:
        followed.tell(Event(job, "progress"))  # which waits still
        followed.tell(Event(job, "started"))
        followed.tell(Event(job, "progress"))
        assert not [words for _, _, words in heard.reports if "silent" in words]
        clock.wait(70)
        followed.tell(Event(job, "progress"))
        followed.tell(Event(job, "finished"))
        clock.wait(70)
        followed.tell(Event(job, "progress"))
    (silent,) = [words for _, _, words in heard.reports if "stalled since" in words]
    assert silent.endswith("process unknown")
    assert (job.name, 1.0, "done") in heard.reports


HOLD = """
import sys, time
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.study.loading import load_study
with only_run(load_study(sys.argv[1], root=sys.argv[2])):
    print("holds", flush=True)
    time.sleep(900)
"""


@pytest.mark.slow
def test_a_second_start_names_the_first_which_frees_the_study_when_killed(tmp_path: Path) -> None:
    study, command = (
        load_study(TINY, root=tmp_path),
        [sys.executable, "-c", HOLD, str(TINY), str(tmp_path)],
    )
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    assert first.stdout.readline() == "holds\n"
    words = rf"tiny is running already \(process {first.pid} on .*, since \d{{4}}-.*\); `dreamer status .*--watch"
    with pytest.raises(InputError, match=words), only_run(study):
        pass
    assert re.match(rf"process {first.pid} on ", runs_elsewhere(study))
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert runs_elsewhere(study) == ""
    with only_run(study):
        pass


def test_two_studies_of_one_process_are_heard_apart() -> None:
    """Each runs in a thread of a Python program, and hears of its own work alone."""
    both_listen = threading.Barrier(2)
    heard: dict[str, list[object]] = {"first": [], "second": []}

    def run(name: str) -> None:
        with reports.listening(Heard()) as told, reports.writing_to(heard[name].append):
            both_listen.wait()
            reports.report(name, 0.5, "half")
            reports.write_line(f"a line of {name}")
            both_listen.wait()
        heard[name] += told.reports

    threads = [threading.Thread(target=run, args=(name,)) for name in heard]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, told in heard.items():
        assert told == [f"a line of {name}", (name, 0.5, "half")]


def test_threads_that_work_for_a_study_are_heard_by_who_listens_to_it() -> None:
    def work(name: str) -> None:
        reports.report(name, 1.0, "done")

    with reports.listening(Heard()) as heard:
        at_once(work, ["one", "two"], threads=2)
    assert sorted(heard.reports) == [("one", 1.0, "done"), ("two", 1.0, "done")]
