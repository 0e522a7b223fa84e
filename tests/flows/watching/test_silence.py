"""A process that lives and does nothing is named after a minute."""

import json
import os
import time
from pathlib import Path

import pytest

import flows.running.silence
from flows.running import progress
from flows.running.silence import Watch, silence
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
    monkeypatch.setattr(flows.running.silence, "time", stopped)
    return stopped


def test_a_minute_without_progress_is_silence(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "progress.json"
    assert silence(path) == ""
    clock.write(path, age=50)
    assert silence(path) == ""
    clock.write(path, age=70)
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
    assert silence(path) == f"silent since {at}, process 4711 on gpu07"
    assert silence(path, started=clock.now - 50) == ""
    assert silence(path, started=clock.now - 65).endswith("process unknown")  # the file is of an earlier process


def test_a_file_of_several_processes_names_none_and_may_rest_longer(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "progress.json"
    clock.write(path, age=590)
    assert silence(path, shared=True) == ""
    clock.write(path, age=610)
    assert silence(path, shared=True) == silence(path).partition(",")[0]


def test_silence_and_its_end_are_reported_once(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "progress.json"
    watch = Watch("train LA-2 seed 0", path)
    with progress.listening(Heard()) as heard:
        watch.look()
        clock.write(path, age=0)
        clock.wait(70)
        watch.look()
        watch.look()
        clock.write(path, age=-70)
        watch.look()
    key = "train LA-2 seed 0: no progress"
    silent, again = heard.reports
    assert silent[:2] == (key, 0.0)
    assert silent[2].endswith("process 4711 on gpu07")
    assert again == (key, 1.0, "goes on")


def test_what_is_not_at_work_is_never_silent(tmp_path: Path, clock: Clock) -> None:
    watch = Watch("evaluate LA-2 seed 0", tmp_path / "progress.json")
    clock.write(tmp_path / "progress.json", age=3600)
    with progress.listening(Heard()) as heard:
        watch.look(at_work=False)
        watch.look()  # begins now: what was written an hour ago says nothing
        assert heard.reports == []
        clock.wait(70)
        watch.look()
        watch.look(at_work=False)
    assert [words for _, _, words in heard.reports][1:] == ["has ended"]
    assert heard.reports[0][2].endswith("process unknown")
