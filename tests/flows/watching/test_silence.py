"""A process that lives and does nothing is named after a minute."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import flows.watching.silence
from flows.following import Followed
from flows.jobs import Event, Job
from flows.watching import progress
from flows.watching.silence import silence
from tests.flows.by_hand import tiny
from tests.flows.heard import Heard


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
    monkeypatch.setattr(flows.watching.silence, "time", stopped)
    return stopped


@pytest.mark.parametrize(("kind", "rest"), [("training", 60), ("evaluation", 600)])
def test_a_minute_without_progress_is_silence_and_an_evaluation_may_rest_longer(
    tmp_path: Path, clock: Clock, kind: str, rest: int
) -> None:
    path = tmp_path / "progress.json"
    assert silence(path, kind) == ""
    clock.write(path, age=rest - 10)
    assert silence(path, kind) == ""
    clock.write(path, age=rest + 10)
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
    assert silence(path, kind) == f"silent since {at}, process 4711 on gpu07"
    assert silence(path, kind, clock.now - rest + 10) == ""
    assert silence(path, kind, clock.now - rest - 5).endswith("process unknown")  # the file is of an earlier process


def test_a_job_is_watched_from_its_start_to_its_end(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "run").mkdir()
    clock.write(tmp_path / "run" / "progress.json", age=3600)  # what was written an hour ago says nothing
    job = Job("training", "train LA-2 seed 0", "model.train", (), tmp_path / "run", tmp_path / "log.txt", goal=10)
    followed = Followed(SimpleNamespace(study=tiny(tmp_path), runs=[]))
    with progress.listening(Heard()) as heard:
        followed.tell(Event(job, "progress"))  # which waits still
        followed.tell(Event(job, "started"))
        followed.tell(Event(job, "progress"))
        assert not [words for _, _, words in heard.reports if "silent" in words]
        clock.wait(70)
        followed.tell(Event(job, "progress"))
        followed.tell(Event(job, "finished"))
        clock.wait(70)
        followed.tell(Event(job, "progress"))
    (silent,) = [words for _, _, words in heard.reports if "silent since" in words]
    assert silent.endswith("process unknown")
    assert (job.name, 1.0, "done") in heard.reports
