"""Locks where the file system has none."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.locks import hold, open_lock, try_lock, wait_for_lock
from dreamer_study.sql.connection import connect
from tests.flows.small_study import TINY

NONE = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


def without_locks(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.parametrize("number", NONE)
def test_a_file_system_without_locks_is_a_line_with_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    without_locks(monkeypatch, number)
    path = tmp_path / "a.lock"
    with open_lock(path) as file:
        for lock in (try_lock, wait_for_lock):
            with pytest.raises(InputError, match="its file system has no locks") as raised:
                lock(file)
            assert str(path) in str(raised.value)
    with pytest.raises(InputError, match="has no locks"), hold(path, print):
        pass


def test_other_errors_of_locks_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(monkeypatch, errno.EBADF)
    with open_lock(tmp_path / "a.lock") as file, pytest.raises(OSError, match="Bad file"):
        try_lock(file)


@pytest.mark.parametrize("number", NONE)
def test_a_run_without_locks_is_refused_in_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
) -> None:
    without_locks(monkeypatch, number)
    assert main(["run", str(TINY), "--plain", "--root", str(tmp_path / "run")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert ".running.lock: its file system has no locks" in said


def test_results_that_cannot_be_locked_are_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    def refuse(*_: object, **__: object) -> None:
        raise duckdb.IOException(
            'IO Error: Could not set lock on file "results.duckdb": No locks available'
        )

    monkeypatch.setattr(duckdb, "connect", refuse)
    with pytest.raises(InputError, match="its file system has no locks"):
        connect(tmp_path / "results.duckdb")
