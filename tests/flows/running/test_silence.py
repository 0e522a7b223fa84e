"""A process that lives and does nothing is named after a minute."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import flows.running.silence
from flows.running import progress
from flows.running.silence import Watch, silence


class Heard:
    """A listener that notes every report."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, float, str]] = []

    def update(self, key: str, fraction: float, words: str) -> None:
        self.reports.append((key, fraction, words))


def write(path: Path, age: float) -> None:
    path.write_text(json.dumps({"tokens": 5, "process": 4711, "machine": "gpu07"}))
    os.utime(path, (time.time() - age,) * 2)


def test_a_minute_without_progress_is_silence(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    assert silence(path) == ""
    write(path, age=50)
    assert silence(path) == ""
    write(path, age=70)
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
    assert silence(path) == f"silent since {at}, process 4711 on gpu07"
    assert silence(path, started=time.time() - 50) == ""
    assert silence(path, started=time.time() - 65).endswith("process unknown")  # the file is of an earlier process


def test_a_file_of_several_processes_names_none_and_may_rest_longer(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    write(path, age=590)
    assert silence(path, shared=True) == ""
    write(path, age=610)
    assert silence(path, shared=True) == silence(path).partition(",")[0]


def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Stop the time that `silence` sees; the returned function moves this time on by seconds."""
    now = [time.time()]
    monkeypatch.setattr(flows.running.silence, "time", SimpleNamespace(time=lambda: now[0]))

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def test_silence_and_its_end_are_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = clock(monkeypatch)
    path = tmp_path / "progress.json"
    watch = Watch("train LA-2 seed 0", path)
    with progress.listening(Heard()) as heard:
        watch.look()
        write(path, age=0)
        wait(70)
        watch.look()
        watch.look()
        write(path, age=-70)
        watch.look()
    key = "train LA-2 seed 0: no progress"
    silent, again = heard.reports
    assert silent[:2] == (key, 0.0)
    assert silent[2].endswith("process 4711 on gpu07")
    assert again == (key, 1.0, "goes on")


def test_what_is_not_at_work_is_never_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = clock(monkeypatch)
    watch = Watch("evaluate LA-2 seed 0", tmp_path / "progress.json")
    write(tmp_path / "progress.json", age=3600)
    with progress.listening(Heard()) as heard:
        watch.look(at_work=False)
        watch.look()  # begins now: what was written an hour ago says nothing
        assert heard.reports == []
        wait(70)
        watch.look()
        watch.look(at_work=False)
    assert [words for _, _, words in heard.reports][1:] == ["has ended"]
    assert heard.reports[0][2].endswith("process unknown")
