"""A new results file is a copy of the empty one in the user's cache, or is made without it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import duckdb
import pytest

from dreamer_study.sql.results import connect

pytestmark = pytest.mark.slow

CONTENT = """
    select 'table' as kind, table_name as name, sql as text, comment from duckdb_tables()
    union all
    select 'view', view_name, sql, comment from duckdb_views() where not internal
    union all
    select 'macro', function_name, macro_definition, comment
    from duckdb_functions() where not internal
    union all
    select 'column', table_name, column_name, comment from duckdb_columns() where not internal
    order by all
"""


def content(path: Path) -> list[tuple]:
    """Make or open a results file; return its definitions with their comments.

    They are read from the disk: DuckDB tells the macros of this process in other words.
    """
    connect(path).close()
    with connect(path) as connection:
        assert connection.execute("select count(*) from runs").fetchall() == [(0,)]
        return connection.execute(CONTENT).fetchall()


@pytest.fixture(scope="module")
def without_cache(tmp_path_factory: pytest.TempPathFactory) -> list[tuple]:
    """The content of a file that was made where there is no cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", os.devnull)
        return content(tmp_path_factory.mktemp("alone") / "alone.duckdb")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the first study puts into a cache."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        connect(home / "first.duckdb").close()
    (kept,) = (home / "cache" / "dreamer-study").iterdir()
    return kept


@pytest.fixture
def kept(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of this file in a cache of this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "dreamer-study"
    folder.mkdir(mode=0o700, parents=True)
    return Path(shutil.copy(filled, folder))


def test_copies_are_the_file_that_is_made_without_a_cache(
    without_cache: list[tuple], kept: Path, tmp_path: Path
) -> None:
    assert len(without_cache) > 400
    before = kept.stat()
    assert content(tmp_path / "study.duckdb") == without_cache
    assert kept.stat().st_mtime_ns == before.st_mtime_ns
    assert len(list(tmp_path.glob("*study.duckdb*"))) == 1, "no copy of another name is left"


def write_garbage(kept: Path) -> None:
    kept.write_bytes(b"not a database" * 1000)


def cut(kept: Path) -> None:
    kept.write_bytes(kept.read_bytes()[:4096])


def write_other_tables(kept: Path) -> None:
    kept.unlink()
    with duckdb.connect(str(kept)) as connection:
        connection.execute("create table runs (x integer)")


@pytest.mark.parametrize("damage", [write_garbage, cut, write_other_tables])
def test_a_damaged_file_in_the_cache_is_not_used_and_made_again(
    damage, without_cache: list[tuple], kept: Path, tmp_path: Path
) -> None:
    damage(kept)
    assert content(tmp_path / "first.duckdb") == without_cache
    connect(tmp_path / "second.duckdb").close()
    assert content(shutil.copy(kept, tmp_path / "third.duckdb")) == without_cache


def test_a_cache_that_others_can_write_is_not_used(
    without_cache: list[tuple], kept: Path, tmp_path: Path
) -> None:
    with connect(kept) as connection:  # as somebody else may have changed the file
        connection.execute("create or replace view main.token_ratios as select 1 as ratio")
    kept.parent.chmod(0o777)
    assert content(tmp_path / "second.duckdb") == without_cache


def test_a_disk_without_hard_links_is_enough(
    without_cache: list[tuple], kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    assert content(tmp_path / "study.duckdb") == without_cache
    assert len(list(tmp_path.glob("*study.duckdb*"))) == 1


def test_a_file_that_another_process_makes_meanwhile_is_kept(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.duckdb"
    link = os.link

    def link_late(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        with connect(path) as connection:  # as the other process
            connection.execute("insert into studies (study_id) values ('theirs')")
        link(source, target)

    monkeypatch.setattr(os, "link", link_late)
    with connect(path) as connection:
        assert connection.execute("select study_id from studies").fetchall() == [("theirs",)]


def test_a_user_without_a_home_has_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    connect(tmp_path / "study.duckdb").close()
