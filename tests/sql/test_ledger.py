"""The ledger of what was entered: rows that are missing or changed are found, whatever table they are of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from sql.definitions import FOLDER
from sql.ingest import forget_differing
from sql.ledger import differing
from sql.results import connect, ingest, query

RUN = {"study_id": "s", "output": "runs/r", "run_id": "r"}
STUDY = {"study_id": "s", "output": "study", "task": "study"}
EVALUATION = {"study_id": "s", "output": "evaluations/a", "run_id": "r", "tokens": 5, "task": "t", "digest": "stored"}
SEEN = {**EVALUATION, "output": "evaluations/b", "task": "introspection"}
OUTPUTS = [STUDY, RUN, EVALUATION, SEEN]
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # the output and the place of a row of each table
    **{table: (STUDY, {"study_id": "s"}) for table in ("studies", "curation", "sources", "models")},
    "runs": (RUN, {"study_id": "s", "run_id": "r"}),
    **{table: (RUN, {"run_id": "r"}) for table in ("run_details", "steps", "checkpoints")},
    **{
        table: (EVALUATION, {"run_id": "r", "tokens": 5, "task": "t"})
        for table in ("evaluations", "evaluation_versions", "raw_evaluations", "depth_evaluations", "items")
    },
    **{table: (SEEN, {"run_id": "r", "tokens": 5}) for table in ("depth_attention", "expert_usage")},
}
CHANGED = ("value", "score", "selections", "loss", "code_version", "failure", "config", "documents", "licence", "seed")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A results file with a row in every table, of which every column has a value."""
    path, tables = tmp_path / "results.duckdb", {}
    with connect(path) as connection:
        for table, (_, place) in ROWS.items():
            described = connection.execute(f"describe {table}").fetchall()
            row = {column: "x" if kind == "VARCHAR" else 1 for column, kind, *_ in described if kind != "TIMESTAMP"}
            tables[table] = pa.Table.from_pylist([{**row, **place}])
    ingest(path, tables, outputs=OUTPUTS)
    return path


def rows(path: Path, table: str) -> pd.DataFrame:
    with connect(path) as connection:
        return connection.table(table).df()


def change(path: Path, statement: str) -> None:
    with connect(path) as connection:
        connection.execute(statement)


def test_every_table_with_rows_of_studies_and_runs_is_covered(path: Path) -> None:
    of_outputs = "select distinct table_name from duckdb_columns() where column_name in ('study_id', 'run_id')"
    asked = f"{of_outputs} and table_name in (select table_name from duckdb_tables()) and table_name <> 'ingested'"
    tables = set(query(path, asked)["table_name"])
    assert tables == {*ROWS, "claims", "computed_factors", "tuning"}
    for name in ("rows_of_outputs", "forget_outputs"):
        text = (FOLDER / "queries" / f"{name}.sql").read_text()
        assert all(re.search(rf"from (internal\.)?{table} ", text) for table in tables), name


@pytest.mark.parametrize("table", ROWS)
def test_a_row_that_is_changed_or_missing_is_found_and_its_output_forgotten(path: Path, table: str) -> None:
    assert differing(path, OUTPUTS) == []
    column = next(name for name in CHANGED if name in rows(path, table))
    output = ROWS[table][0]
    for statement in (f"update {table} set {column} = null", f"delete from {table}"):
        change(path, statement)
        assert differing(path, OUTPUTS) == [output["output"]]
    assert forget_differing(path, OUTPUTS) == [output["output"]]
    assert [len(rows(path, other)) for other in ROWS] == [int(of != output) for of, _ in ROWS.values()]
    assert differing(path, OUTPUTS) == [output["output"]]


def test_outputs_that_were_made_anew_or_are_of_another_study_are_not_entered(path: Path) -> None:
    assert differing(path, [STUDY, {**EVALUATION, "digest": "another"}]) == ["evaluations/a"]
    assert differing(path, [{**EVALUATION, "study_id": "other"}]) == ["evaluations/a"]
