"""Exporting a results file: all of it, whole, and nothing of others harmed."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from pipeline.errors import InputError
from sql import results
from sql.export import export


@pytest.fixture
def path(tmp_path, empty_file):
    file = empty_file(tmp_path / "results.duckdb")
    run = {"study_id": "s", "run_id": "r", "model_id": "LA"}
    evaluation = {"run_id": "r", "tokens": 10, "task": "t", "metric": "acc", "filter": "none", "value": 0.5}
    results.ingest(file, {"runs": pa.Table.from_pylist([run]), "evaluations": pa.Table.from_pylist([evaluation])})
    return file


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_every_table_and_view_is_written_and_reads_back(path, tmp_path, format):
    folder = tmp_path / "it's here" / "export"
    files = export(path, folder, format=format)
    assert sorted(folder.iterdir()) == sorted(files)
    described = results.tables(path)
    expected = set(described[described["kind"] != "macro"]["name"]) - {"schema_version"}
    assert {file.stem for file in files} == expected
    read = f"from read_{format}(?)"
    row = duckdb.execute(read, [str(folder / f"data_efficiency.{format}")]).df().iloc[0]
    assert (row["variant"], row["task"], row["factor"], row["bound"]) == ("LA", "t", 1.0, "at least")
    assert len(duckdb.execute(read, [str(folder / f"items.{format}")]).df()) == 0


def test_an_earlier_export_is_replaced_as_a_whole(path, tmp_path):
    folder = tmp_path / "export"
    (tmp_path / "export.partial").mkdir()
    (tmp_path / "export.partial" / "half.parquet").write_text("left by a kill")
    export(path, folder, format="csv")
    files = export(path, folder)
    assert sorted(folder.iterdir()) == sorted(files)
    assert not (tmp_path / "export.partial").exists()


def test_folders_with_other_files_are_left_alone(path, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"mine holds other files \(thesis.txt\)"):
        export(path, folder)
    with pytest.raises(InputError, match="is a file"):
        export(path, folder / "thesis.txt")
    assert (folder / "thesis.txt").read_text() == "years of work"


def test_unknown_formats_and_missing_files_are_said(path, tmp_path):
    with pytest.raises(InputError, match="no export format 'xlsx'; there are parquet and csv"):
        export(path, tmp_path / "export", format="xlsx")
    with pytest.raises(InputError, match="no such results file"):
        export(tmp_path / "nothing.duckdb", tmp_path / "export")
    assert not (tmp_path / "export").exists()
