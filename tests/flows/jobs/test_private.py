"""Runtime folders on a shared machine: what somebody else planted is neither followed nor used."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from flows.jobs import private
from flows.jobs.devices import lock_gpus
from flows.jobs.private import private_folder
from flows.jobs.processes import started
from pipeline.errors import InputError


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory that all users share."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return tmp_path


def test_a_folder_is_for_this_user_alone() -> None:
    folder = private_folder("devices")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    assert stat.S_IMODE(private_folder("devices").stat().st_mode) == 0o700


def test_compiled_libraries_lie_where_the_user_says_else_in_a_private_folder(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared / "tells.py").write_text("import os; print(os.environ['TORCHINDUCTOR_CACHE_DIR'])")
    monkeypatch.setenv("PYTHONPATH", str(shared))
    for wanted in ("", "/mine"):
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", wanted)
        started("tells", [], shared / "log", {}).wait()
    assert (shared / "log").read_text().split() == [str(private_folder("compiled")), "/mine"]


def test_a_planted_link_is_refused(shared: Path) -> None:
    (shared / "theirs").mkdir()
    (shared / f"dreamer-{os.getuid()}").symlink_to(shared / "theirs")
    with pytest.raises(InputError, match="is not a folder of this user"):
        private_folder("devices")
    assert not list((shared / "theirs").iterdir())


def test_a_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    private_folder("devices")
    name = os.getuid()
    monkeypatch.setattr(private.Path, "lstat", lambda path: os.stat_result((0o40700, 1, 1, 1, name + 1, 0, 0, 0, 0, 0)))
    with pytest.raises(InputError, match="is not a folder of this user"):
        private_folder("devices")


def test_the_lock_of_a_device_truncates_no_file_behind_a_link(shared: Path) -> None:
    victim = shared / "thesis.txt"
    victim.write_text("years of work")
    (private_folder("devices") / "0").symlink_to(victim)
    with pytest.raises(OSError, match="0"), lock_gpus(["0"], 1, time.sleep):
        pass
    assert victim.read_text() == "years of work"
