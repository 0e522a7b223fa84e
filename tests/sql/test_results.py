"""Opening, entering and asking a results file, with the processes, interruptions and versions it has to live with."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from sql import results

ITEM = {"run_id": "r", "tokens": 10, "task": "t", "metric": "acc", "filter": "none"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study" / "results.duckdb"


def rows(*given):
    return pa.Table.from_pylist(list(given))


def items(count, value=1.0, **changed):
    return rows(*({**ITEM, "item_id": f"leaf/{n}", "value": value, **changed} for n in range(count)))


def count(path, table):
    return int(results.query(path, f"select count(*) as n from {table}")["n"][0])


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text


# Opening --------------------------------------------------------------------------------------------------------------


def test_a_writer_creates_the_file_for_older_shells_too(path):
    with results.connect(path) as connection:
        version = connection.execute("select tags from duckdb_databases() where path is not null").fetchall()[0][0]
    assert version["storage_version"].startswith("v1.2")


def test_views_are_stored_in_a_form_that_older_shells_read(path):
    with results.connect(path) as connection:
        stored = connection.execute("select sql from duckdb_views() where not internal").fetchall()
        stored += connection.execute("select macro_definition from duckdb_functions() where not internal").fetchall()
    assert len(stored) >= len(results.VIEWS)
    assert not [
        text for (text,) in stored if re.search(r'\bif"?\(', text)
    ]  # 1.5 does not know DuckDB 2's spelling of it


def test_a_reader_of_a_missing_file_is_told(path):
    with pytest.raises(InputError, match="no such results file") as error:
        results.connect(path, read_only=True)
    assert str(path) in one_line(error)
    assert not path.exists()


def test_a_file_of_another_kind_is_refused(path):
    path.parent.mkdir()
    path.write_bytes(b"not a database, but long enough to be taken for one" * 100)
    for read_only in (True, False):
        with pytest.raises(InputError, match="cannot be opened as a results file") as error:
            results.connect(path, read_only=read_only)
        assert str(path) in one_line(error)


def test_tables_that_are_not_ours_are_refused(path):
    path.parent.mkdir()
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table runs (name varchar)")
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(InputError, match="a database of other tables, not a results file") as error:
            results.connect(path, read_only=read_only)
        one_line(error)
    assert path.read_bytes() == before


def test_a_second_opening_keeps_rows_and_declarations(path):
    with results.connect(path) as connection:
        connection.execute("insert into studies (study_id) values ('s')")
        connection.execute("update benchmarks set filter = 'strict-match' where task = 'gsm8k'")
        connection.execute("update schema_version set digest = 'older views'")
        connection.execute("create or replace view data_efficiency as select 1 as old")
    with results.connect(path) as connection:
        assert "factor" in connection.table("data_efficiency").columns
        assert connection.execute("select filter from benchmarks where task = 'gsm8k'").fetchall() == [
            ("strict-match",)
        ]
        assert connection.execute("select study_id from studies").fetchall() == [("s",)]


def test_a_reader_gets_the_views_of_its_own_program(path):
    with results.connect(path) as connection:
        connection.execute("update schema_version set digest = 'older views'")
        connection.execute("create or replace view funnel as select 1 as old")
    assert "stage" in results.query(path, "from funnel").columns


def newer_program(tmp_path, migration):
    """The folder of a later version, with one more migration."""
    newer = tmp_path / "sql"
    shutil.copytree(results.FOLDER, newer, ignore=shutil.ignore_patterns("__pycache__"))
    number = len(list(newer.glob("migration_*.sql"))) + 2
    (newer / f"migration_{number:04}.sql").write_text(migration)
    return newer


def test_a_file_of_this_version_will_be_migrated_by_the_next(path, tmp_path, monkeypatch):
    results.ingest(path, {"runs": rows({"study_id": "s", "run_id": "r", "seed": 1})})
    newer = newer_program(tmp_path, "alter table runs add column cluster varchar default 'here'")
    schema = (newer / "schema.sql").read_text()
    changed = schema.replace("stream_hash varchar, -- equal", "stream_hash varchar, cluster varchar, -- equal")
    (newer / "schema.sql").write_text(changed)
    with monkeypatch.context() as patched:
        patched.setattr(results, "FOLDER", newer)
        for _ in range(2):
            assert results.query(path, "select seed, cluster from runs").values.tolist() == [[1, "here"]]
        fresh = results.query(_created(tmp_path / "fresh.duckdb"), "describe runs")["column_name"].tolist()
        assert fresh[-1] == "cluster"
    with pytest.raises(InputError, match="made by a newer version") as error:
        results.connect(path)
    one_line(error)


def test_a_file_of_the_first_version_is_migrated(path):
    """tests/sql/version_1.sql: the tables as the first version made them, with a few rows of a study."""
    path.parent.mkdir()
    with duckdb.connect(str(path)) as connection:
        connection.execute((Path(__file__).parent / "version_1.sql").read_text())
    before = {"evaluations": 4, "factor_intervals": 1, "items": 2, "steps": 2}
    assert {table: count(path, table) for table in before} == before
    kept = results.query(path, "select low, high, replicates, goal_first from factor_intervals")
    assert kept.values.tolist()[0][:3] == [1.0, 2.0, 1000]
    assert kept["goal_first"].isna().all()
    assert results.query(path, "select factor from data_efficiency where variant = 'DR'")["factor"].tolist() == [
        2.0,
        2.0,
    ]
    assert results.query(path, "select reason from benchmarks where task = 't'")["reason"].tolist() == ["my own"]
    fresh = _created(path.parent / "fresh.duckdb")
    described = "select table_name, column_name, data_type from duckdb_columns() where not internal order by all"
    both = [results.query(file, described).values.tolist() for file in (path, fresh)]
    assert both[0] == both[1]
    new = {"checkpoints": rows({"run_id": "r", "tokens": 10, "step": 1, "stream_hash": "a"})}
    assert results.ingest(path, new) == {"checkpoints": 1}


def _created(path: Path) -> Path:
    results.connect(path).close()
    return path


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, tmp_path, monkeypatch):
    results.ingest(path, {"studies": rows({"study_id": "s"})})
    newer = newer_program(tmp_path, "drop table studies; alter table nothing add column x integer")
    with monkeypatch.context() as patched:
        patched.setattr(results, "FOLDER", newer)
        with pytest.raises(InputError, match="not those of a results file"):
            results.connect(path)
    assert count(path, "studies") == 1


# Other processes ------------------------------------------------------------------------------------------------------

HOLD = """
    import duckdb, sys, time
    connection = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "reader")
    print("open", flush=True)
    time.sleep(float(sys.argv[3]))
"""


def hold(path, kind, seconds):
    """Another process that has the file open, like a user's shell."""
    command = [sys.executable, "-c", textwrap.dedent(HOLD), str(path), kind, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "open\n"
    return process


@pytest.mark.parametrize(("kind", "read_only"), [("reader", False), ("writer", True)])
def test_a_held_file_names_the_holder(path, kind, read_only):
    results.connect(path).close()
    process = hold(path, kind, 60)
    try:
        with pytest.raises(InputError, match=f"PID {process.pid}") as error:
            results.connect(path, read_only=read_only, wait=0.2)
        assert "in use by another process" in one_line(error)
        if kind == "reader":  # readers do not disturb each other
            assert count(path, "studies") == 0
    finally:
        process.kill()
        process.wait()


def test_a_file_held_for_a_moment_is_waited_for(path):
    results.connect(path).close()
    process = hold(path, "writer", 1)
    assert results.ingest(path, {"studies": rows({"study_id": "s"})}, wait=30) == {"studies": 1}
    process.wait()


def test_the_same_process_may_hold_the_file_for_writing_and_ask(path):
    with results.connect(path) as connection:
        connection.execute("insert into studies (study_id) values ('s')")
        assert count(path, "studies") == 1
        with pytest.raises(InputError, match="read-only"):
            results.query(path, "delete from studies")
    reader = results.connect(path, read_only=True)
    with pytest.raises(InputError, match="already open in this process"):
        results.connect(path)
    reader.close()


def test_a_user_may_open_the_file_beside_us_in_one_process(path):
    results.connect(path).close()
    with duckdb.connect(str(path)) as theirs:
        theirs.execute("insert into studies (study_id) values ('s')")
        assert count(path, "studies") == 1
        assert results.ingest(path, {"studies": rows({"study_id": "t"})}) == {"studies": 1}


# Entering -------------------------------------------------------------------------------------------------------------


def test_entering_twice_changes_nothing(path, tmp_path):
    pq.write_table(items(5), tmp_path / "items.parquet")
    tables = {
        "studies": rows({"study_id": "s", "name": "first", "created_at": "2026-01-01 12:00:00"}),
        "evaluations": rows({**ITEM, "value": 0.5}),
        "items": [tmp_path / "items.parquet"],
        "curation": rows({"study_id": "s", "source": "a", "stage": "clean", "reason": "kept", "tokens": None}),
    }
    for _ in range(2):
        assert results.ingest(path, tables) == {"studies": 1, "evaluations": 1, "items": 5, "curation": 1}
        assert [count(path, table) for table in tables] == [1, 1, 5, 1]


def test_a_row_entered_again_replaces_only_the_columns_given(path):
    results.ingest(path, {"runs": rows({"study_id": "s", "run_id": "r", "seed": 3, "status": "running"})})
    results.ingest(path, {"runs": rows({"run_id": "r", "study_id": "s", "status": "complete"})})
    assert results.query(path, "select seed, status from runs").values.tolist() == [[3, "complete"]]


def test_of_several_rows_with_one_key_the_last_counts(path, tmp_path):
    for name, loss in (("b", 2.0), ("a", 1.0)):
        pq.write_table(rows({"run_id": "r", "step": 1, "tokens": 5, "loss": loss}), tmp_path / f"{name}.parquet")
    results.ingest(path, {"steps": [tmp_path / "b.parquet", tmp_path / "a.parquet"]})
    assert results.query(path, "select loss from steps")["loss"].tolist() == [1.0]
    results.ingest(path, {"items": pa.concat_tables([items(3, 0.0), items(3, 1.0)])})
    assert results.query(path, "select value from items")["value"].tolist() == [1.0, 1.0, 1.0]


def test_items_replace_those_of_their_evaluation_and_no_others(path):
    results.ingest(path, {"items": pa.concat_tables([items(5), items(4, tokens=20), items(3, metric="acc_norm")])})
    results.ingest(path, {"items": items(2, 0.0)})
    left = results.query(path, "select tokens, metric, count(*) as n from items group by all order by all")
    assert left.values.tolist() == [[10, "acc", 2], [10, "acc_norm", 3], [20, "acc", 4]]


def test_nothing_to_enter_is_fine(path):
    assert results.ingest(path, {"items": [], "studies": pa.Table.from_pylist([])}) == {"items": 0, "studies": 0}


@pytest.mark.parametrize(
    ("table", "given", "said"),
    [
        ("evaluation", {}, "no table 'evaluation'.*nearest: 'evaluations'"),
        ("studies", {"study_id": "s", "nam": "x"}, "studies: no column 'nam'.*nearest: 'name'"),
        ("steps", {"run_id": "r", "loss": 1.0}, "steps: the key column 'step' is missing"),
        ("studies", {"study_id": None, "name": "x"}, "studies: rows refused: .*NULL"),
        ("items", {**ITEM, "item_id": None, "value": 1.0}, "items: rows refused: .*NULL"),
        ("evaluations", {**ITEM, "value": "much"}, "evaluations: rows refused: .*much"),
        ("evaluations", {**ITEM, "task": "average", "value": 1.0}, "evaluations: the task name 'average' is taken"),
        ("evaluations", {**ITEM, "tokens": -1, "value": 1.0}, "evaluations: rows refused: .*CHECK"),
    ],
)
def test_rows_that_do_not_fit_are_refused(path, table, given, said):
    with pytest.raises(InputError, match=said) as error:
        results.ingest(path, {table: rows(given)})
    one_line(error)


def test_a_run_whose_tokens_go_back_is_refused(path):
    steps = [{"run_id": "r", "step": n, "tokens": tokens} for n, tokens in ((1, 10), (2, 20), (3, 15))]
    results.ingest(path, {"steps": rows(*steps[:2])})
    with pytest.raises(InputError, match="run r goes back from 20 tokens to 15 at step 3"):
        results.ingest(path, {"steps": rows(*steps[2:])})
    assert count(path, "steps") == 2


def test_an_evaluation_cannot_be_entered_twice_by_hand(path):
    with results.connect(path) as connection:
        insert = "insert into evaluations (run_id, tokens, task, metric, value) values ('r', 10, 't', 'acc', 0.5)"
        connection.execute(insert)
        with pytest.raises(duckdb.ConstraintException):
            connection.execute(insert)


def test_one_bad_table_keeps_all_out(path):
    with pytest.raises(InputError):
        results.ingest(path, {"items": items(3), "studies": rows({"study_id": "s", "unknown": 1})})
    assert count(path, "items") == 0


def test_files_that_cannot_be_read_are_named(path, tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 cut short")
    for file, said in ((broken, "broken.parquet"), (tmp_path / "absent.parquet", "no such file: .*absent.parquet")):
        with pytest.raises(InputError, match=said) as error:
            results.ingest(path, {"items": [file]})
        one_line(error)


# Asking ---------------------------------------------------------------------------------------------------------------


def test_a_query_that_is_refused_says_why_on_one_line(path):
    results.connect(path).close()
    for sql, said in (("selct 1", "syntax error"), ("from data_eficiency", 'Did you mean "data_efficiency"')):
        with pytest.raises(InputError, match=said) as error:
            results.query(path, sql)
        one_line(error)


def test_tables_lists_everything_with_its_columns_and_what_it_is(path):
    results.connect(path).close()
    found = results.tables(path).set_index("name")
    assert found.loc["items", "columns"] == "run_id, tokens, task, metric, filter, item_id, value"
    assert found.loc["data_efficiency", "kind"] == "view"
    assert found.loc["tokens_to", ["kind", "columns"]].tolist() == ["macro", "task_name, goal"]
    assert found["description"].notna().all()
    # The answer to every question has its file, and every file is used.
    files = {file.stem for file in results.FOLDER.glob("*.sql")}
    migrations = {file.stem for file in results.FOLDER.glob("migration_*.sql")}
    assert files == {"schema", "tables", *migrations, *results.VIEWS}
