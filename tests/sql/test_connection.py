"""Opening a results file, with the processes and versions that a file has to live with."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from threading import Timer

import duckdb
import pandas as pd
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql import results
from dreamer_study.sql.definitions import views
from dreamer_study.sql.export import export
from tests.full_disk import no_space
from tests.sql.by_hand import count, items, one_line, rows
from tests.sql.processes import shell

# Opening
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_writer_creates_the_file_for_older_shells_too(new_path):
    with results.connect(new_path) as connection:
        version = connection.execute(
            "select tags from duckdb_databases() where path is not null"
        ).fetchall()[0][0]
    assert version["storage_version"].startswith("v1.2")


def test_views_are_stored_in_a_form_that_older_shells_read(path):
    with results.connect(path) as connection:
        stored = connection.execute("select sql from duckdb_views() where not internal").fetchall()
        stored += connection.execute(
            "select macro_definition from duckdb_functions() where not internal"
        ).fetchall()
    assert len(stored) >= len(views()) > 40
    assert not [
        text for (text,) in stored if re.search(r'\bif"?\(', text)
    ]  # 1.5 does not know DuckDB 2's spelling of it


def test_a_reader_of_a_missing_file_is_told(new_path):
    with pytest.raises(InputError, match="no such results file") as error:
        results.connect(new_path, read_only=True)
    assert str(new_path) in one_line(error)
    assert not new_path.exists()


def test_a_file_of_another_kind_is_refused(new_path):
    new_path.parent.mkdir()
    new_path.write_bytes(b"not a database, but long enough to be taken for one" * 100)
    for read_only in (True, False):
        with pytest.raises(InputError, match="cannot be opened as a results file") as error:
            results.connect(new_path, read_only=read_only)
        assert str(new_path) in one_line(error)


@pytest.mark.slow
def test_a_corrupt_file_is_told_with_the_way_out_whatever_meets_the_damage(path):
    results.ingest(path, {"items": items(5000)})
    content, told = bytearray(path.read_bytes()), []
    for place in range(12_288 + 100, len(content), 262_144):  # in every block behind the headers
        path.write_bytes(bytes([*content[:place], content[place] ^ 1, *content[place + 1 :]]))
        for meets in (
            lambda: results.query(path, "from items"),
            lambda: results.ingest(path, {"items": items(3)}),
        ):
            try:
                meets()
            except InputError as error:
                told.append(str(error))
    assert told
    assert all(str(path) in line for line in told)
    assert all(
        "remove the study's results.duckdb" in line or "dreamer verify STUDY --repair" in line
        for line in told
    )


def test_tables_that_are_not_ours_are_refused(new_path):
    new_path.parent.mkdir()
    with duckdb.connect(str(new_path)) as connection:
        connection.execute("create table runs (name varchar)")
    before = new_path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(
            InputError, match="this database has other tables and is not a results file"
        ) as error:
            results.connect(new_path, read_only=read_only)
        one_line(error)
    assert new_path.read_bytes() == before


@pytest.mark.slow
def test_a_second_opening_keeps_rows_and_declarations(path):
    with results.connect(path) as connection:
        connection.execute("insert into studies (study_id) values ('s')")
        connection.execute("update benchmarks set filter = 'strict-match' where task = 'gsm8k'")
        connection.execute("update schema_version set digest = 'older views'")
        connection.execute("create or replace view data_efficiency as select 1 as old")
    with results.connect(path) as connection:
        assert "factor" in connection.table("data_efficiency").columns
        assert connection.execute(
            "select filter from benchmarks where task = 'gsm8k'"
        ).fetchall() == [("strict-match",)]
        assert connection.execute("select study_id from studies").fetchall() == [("s",)]


@pytest.mark.slow
def test_a_file_from_before_a_table_is_read_by_views_of_this_program_and_gets_the_table_from_a_writer(
    path,
):
    with results.connect(path) as connection:
        connection.execute("update schema_version set digest = 'older views'")
        connection.execute("create or replace view funnel as select 1 as old")
        connection.execute("drop view internal.model_answers")
        connection.execute("drop table answers")
        connection.execute("drop table internal.found_items")
    before = path.read_bytes()
    assert "stage" in results.query(path, "from funnel").columns
    assert results.query(path, "from answers").empty
    with results.connect(path, read_only=True) as connection:
        assert not connection.execute("from found_items").fetchall()
    assert path.read_bytes() == before
    results.connect(path).close()
    with duckdb.connect(str(path), read_only=True) as connection:
        for table in ("main.answers", "internal.found_items"):
            assert connection.execute(f"select count(*) from {table}").fetchall() == [(0,)]


@pytest.mark.slow
def test_readers_neither_need_nor_take_the_right_to_write(path):
    with results.connect(path) as connection:
        connection.execute("update schema_version set digest = 'older views'")
    path.chmod(0o444)
    path.parent.chmod(0o555)
    with shell(path, "read-only"):
        assert list(results.query(path, "from mean_factors")["variant"]) == []
    path.parent.chmod(0o755)


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_of_other_tables_is_refused_and_says_what_to_do(path, step, read_only):
    with results.connect(path) as connection:
        connection.execute("update schema_version set version = version + ?", [step])
    before = path.read_bytes()
    with pytest.raises(
        results.OutOfDate, match=r"results.duckdb: made by another .*move the file.*`dreamer run`"
    ) as error:
        results.connect(path, read_only=read_only)
    one_line(error)
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_reader_of_an_empty_file_is_told_and_a_writer_makes_the_tables(new_path):
    new_path.parent.mkdir()
    duckdb.connect(str(new_path)).close()  # as a kill leaves it between creation and tables
    with pytest.raises(results.OutOfDate, match="the database is empty") as error:
        results.query(new_path, "from runs")
    one_line(error)
    results.connect(new_path).close()
    assert count(new_path, "runs") == 0


def test_a_full_disk_leaves_no_file_that_stands_in_the_way(new_path):
    with no_space(), pytest.raises(InputError):
        results.connect(new_path)
    results.connect(new_path).close()


def test_tables_changed_by_hand_are_refused_by_a_writer(path):
    with results.connect(path) as connection:
        connection.execute("update schema_version set digest = 'older views'")
        connection.execute("alter table runs drop column seed")
    with pytest.raises(
        InputError, match="its tables are not the tables of a results file"
    ) as error:
        results.connect(path)
    one_line(error)


def test_a_file_that_this_process_has_attached_is_no_damaged_one(path):
    with contextlib.closing(duckdb.connect()) as other:
        other.execute(f"attach '{path}' as mine")
        with pytest.raises(
            results.Busy, match="another connection of this process has attached the file"
        ):
            results.connect(path)


# Strangers
# ------------------------------------------------------------------------------------------------------------


KILLED_WRITER = """
import os
import sys

from dreamer_study.sql.results import connect

made = connect(sys.argv[1])
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_whose_first_writer_was_killed_is_opened(tmp_path, read_only):
    path = tmp_path / "it's.duckdb"
    # without a cache, from which the file would be copied with its views
    environment = {**os.environ, "XDG_CACHE_HOME": os.devnull}
    subprocess.run([sys.executable, "-c", KILLED_WRITER, path], check=True, env=environment)
    assert path.with_name(f"{path.name}.wal").exists()
    with results.connect(path, read_only=read_only) as connection:
        assert connection.execute("from mean_factors").fetchall() == []


READS = "select content from read_text('{secret}')"
WRITES = "select count(*)::varchar from enable_profiling(format = 'json', save_location = '{mine}')"


@pytest.mark.slow
@pytest.mark.parametrize("reaches", [READS, WRITES])
@pytest.mark.parametrize("hidden_in", ["view", "macro"])
def test_the_sql_of_a_strangers_file_reaches_no_other_file(path, tmp_path, reaches, hidden_in):
    (tmp_path / "secret.txt").write_text("a key")
    (tmp_path / "mine.json").write_text("mine")
    reaches = reaches.format(secret=tmp_path / "secret.txt", mine=tmp_path / "mine.json")
    with results.connect(path) as connection:
        connection.execute("insert into studies (study_id) values ('s')")
    with duckdb.connect(str(path)) as connection:  # the digest of the views stays as it was
        if hidden_in == "view":
            connection.execute("alter table studies rename to kept")
            connection.execute(
                f"create view studies as select study_id, ({reaches}) as name from kept"
            )
        else:  # in the place of a function that every opening calls
            tables = "select 'schema_version' as table_name, 'internal' as schema_name"
            connection.execute(
                f"create macro duckdb_tables() as table {tables} union all select ({reaches}), 'main'"
            )

    def ask_twice() -> pd.DataFrame:
        with results.connect(path, read_only=True) as connection:
            connection.execute("from studies").df()
            return connection.execute("from studies").df()

    found = ""
    for asks in (
        ask_twice,
        lambda: results.query(path, "from studies"),
        lambda: results.query(path, "from duckdb_tables()"),
        lambda: export(path, tmp_path / "export", format="csv"),
    ):
        with contextlib.suppress(InputError, duckdb.Error):
            found += str(asks())
    assert "a key" not in found
    assert not [file for file in tmp_path.rglob("*.csv") if "a key" in file.read_text()]
    assert (tmp_path / "mine.json").read_text() == "mine"


# Other processes
# ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "read_only"), [("read-only", False), ("read-write", True)])
def test_a_held_file_names_the_holder(path, mode, read_only):
    with shell(path, mode) as holder:
        with pytest.raises(InputError, match=f"PID {holder.pid}") as error:
            results.connect(path, read_only=read_only, wait=0.2)
        assert "in use by another process" in one_line(error)
        if mode == "read-only":  # readers do not disturb each other
            assert count(path, "studies") == 0


@pytest.mark.slow
def test_a_file_held_for_a_moment_is_waited_for(path):
    with shell(path, "read-write") as holder:
        Timer(1, holder.kill).start()
        assert results.ingest(path, {"studies": rows({"study_id": "s"})}, wait=30) == {"studies": 1}


def test_the_same_process_may_hold_the_file_for_writing_and_ask(path):
    with results.connect(path) as connection:
        connection.execute("insert into studies (study_id) values ('s')")
        assert count(path, "studies") == 1
        with pytest.raises(InputError, match="read-only"):
            results.query(path, "delete from studies")
    reader = results.connect(path, read_only=True)
    with pytest.raises(InputError, match="this process has the file open for reading"):
        results.connect(path)
    reader.close()


def test_a_user_may_open_the_file_beside_us_in_one_process(path):
    with duckdb.connect(str(path)) as theirs:
        theirs.execute("insert into studies (study_id) values ('s')")
        assert count(path, "studies") == 1
        assert results.ingest(path, {"studies": rows({"study_id": "t"})}) == {"studies": 1}
