"""Results files of older versions, and of newer ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from pipeline.errors import InputError
from sql import definitions, results
from tests.sql.by_hand import count, one_line, rows


def newer_program(tmp_path, migration):
    """The folder of a later version, with one more migration."""
    newer = tmp_path / "sql"
    shutil.copytree(definitions.FOLDER, newer, ignore=shutil.ignore_patterns("__pycache__"))
    number = 1 + max(int(file.name[:4]) for file in (newer / "tables" / "migrations").glob("*.sql"))
    (newer / "tables" / "migrations" / f"{number:04}_next.sql").write_text(migration)
    return newer


def test_a_file_of_this_version_will_be_migrated_by_the_next(path, tmp_path, monkeypatch):
    results.ingest(path, {"runs": rows({"study_id": "s", "run_id": "r", "seed": 1})})
    newer = newer_program(tmp_path, "alter table runs add column cluster varchar default 'here'")
    schema = (newer / "tables" / "results.sql").read_text()
    changed = schema.replace("stream_hash varchar, -- equal", "stream_hash varchar, cluster varchar, -- equal")
    (newer / "tables" / "results.sql").write_text(changed)
    with monkeypatch.context() as patched:
        patched.setattr(definitions, "FOLDER", newer)
        for _ in range(2):
            results.connect(path).close()
            assert results.query(path, "select seed, cluster from runs").values.tolist() == [[1, "here"]]
        fresh = results.query(_created(tmp_path / "fresh.duckdb"), "describe runs")["column_name"].tolist()
        assert fresh[-1] == "cluster"
    with pytest.raises(InputError, match="made by a newer version") as error:
        results.connect(path)
    one_line(error)


def test_a_file_of_the_first_version_is_migrated(new_path):
    """version_1.sql: the tables as the first version made them, with a few rows of a study."""
    new_path.parent.mkdir()
    with duckdb.connect(str(new_path)) as connection:
        connection.execute((Path(__file__).parent / "version_1.sql").read_text())
    results.connect(new_path).close()
    before = {"evaluations": 4, "factor_intervals": 1, "items": 2, "steps": 2}
    assert {table: count(new_path, table) for table in before} == before
    kept = results.query(new_path, "select low, high, replicates, goal_first from factor_intervals")
    assert kept.values.tolist()[0][:3] == [1.0, 2.0, 1000]
    assert kept["goal_first"].isna().all()
    assert results.query(new_path, "select weights from evaluation_versions").empty
    assert results.query(new_path, "select factor from data_efficiency where variant = 'DR'")["factor"].tolist() == [
        2.0,
        2.0,
    ]
    measured = results.query(new_path, "select kind, count(*) as metrics from metrics group by kind order by kind")
    assert dict(measured.itertuples(index=False)) == {"accuracy": 9, "loss": 2, "perplexity": 4}
    assert results.query(new_path, "select reason from metrics where metric = 'grade'")["reason"].tolist() == ["my own"]
    assert results.query(new_path, "select reason from benchmarks where task = 't'")["reason"].tolist() == ["my own"]
    fresh = _created(new_path.parent / "fresh.duckdb")
    described = "select table_name, column_name, data_type from duckdb_columns() where not internal order by all"
    both = [results.query(file, described).values.tolist() for file in (new_path, fresh)]
    assert both[0] == both[1]
    place = {"run_id": "r", "tokens": 10}
    evaluation = {**place, "task": "t", "metric": "acc", "filter": "none", "value": 0.5}
    new = {
        "checkpoints": rows({**place, "step": 1, "stream_hash": "a"}),
        "evaluations": rows(evaluation),
        "evaluation_versions": rows({**place, "task": "t", "weights": "averaged"}),
        "raw_evaluations": rows(evaluation),
    }
    assert results.ingest(new_path, new) == dict.fromkeys(new, 1)


def _created(path: Path) -> Path:
    results.connect(path).close()
    return path


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, tmp_path, monkeypatch):
    results.ingest(path, {"studies": rows({"study_id": "s"})})
    newer = newer_program(tmp_path, "drop table studies; alter table nothing add column x integer")
    with monkeypatch.context() as patched:
        patched.setattr(definitions, "FOLDER", newer)
        with pytest.raises(InputError, match="not those of a results file"):
            results.connect(path)
    assert count(path, "studies") == 1
