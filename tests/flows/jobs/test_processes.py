"""The ranks of one command: what they know of each other, and that none is left where another one fails."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flows.jobs import Failed
from flows.jobs.processes import started
from pipeline.errors import InputError
from tests.flows.jobs.programs import alive, events, job, local, use
from tests.waiting import PATIENCE_SECONDS, until


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("what", "error"), [("bad-rank", InputError), ("killed-rank", Failed)])
def test_where_one_rank_fails_the_others_are_ended(tmp_path: Path, what: str, error: type[Exception]) -> None:
    before = time.monotonic()
    with local(tmp_path) as jobs:
        found = events(jobs, job(tmp_path, "a", what, waits=True, devices=2))
    assert type(found["a"][-1].error) is error
    assert time.monotonic() - before < PATIENCE_SECONDS
    assert not alive(int((tmp_path / "a").read_text()))


def test_no_process_takes_modules_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "somebody's"
    here.mkdir()
    (here / "ctypes.py").write_text("open('marker', 'w')")
    (tmp_path / "uses.py").write_text("import ctypes, sys; print(sys.path[0])")
    monkeypatch.chdir(here)
    child = started("uses", [], tmp_path / "log.txt", {})
    until(lambda: child.poll() is not None)
    assert child.poll() == 0, (tmp_path / "log.txt").read_text()
    assert [path.name for path in here.iterdir()] == ["ctypes.py"]
