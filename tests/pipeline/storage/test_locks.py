"""Tests of file locks: one holder at a time, or several that share."""

from __future__ import annotations

from pathlib import Path

from pipeline.storage.locks import try_lock


def test_a_lock_excludes_other_openings_until_the_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as first, path.open() as second:
        assert try_lock(first)
        assert not try_lock(second)
        assert not try_lock(second, shared=True)
    with path.open() as third:
        assert try_lock(third)


def test_shared_locks_exclude_only_a_lock_that_is_not_shared(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as first, path.open() as second:
        assert try_lock(first, shared=True)
        assert try_lock(second, shared=True)
        assert not try_lock(first)
