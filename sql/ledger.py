"""Know which outputs of a store have their rows in a results file, whole: the table `ingested`.

An output is a group of rows entered at once: `evaluations/<key>`, `runs/<run_id>`, and of the study itself 'study',
'claims', 'tuning' and 'computed_factors'. It is given with study_id, run_id, tokens and task, by which
queries/rows_of_outputs.sql finds its rows in the tables, and with its digest in the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sql.connection import connect
from sql.definitions import FOLDER

Outputs = Sequence[Mapping[str, Any]]
COLUMNS = {**dict.fromkeys(("study_id", "output", "run_id", "task", "digest"), pa.string()), "tokens": pa.int64()}


def record(connection: duckdb.DuckDBPyConnection, outputs: Outputs) -> None:
    """Record outputs whose rows were entered, within the transaction in which they were."""
    execute(connection, "rows_of_outputs", outputs, into="insert or replace into ingested by name ")


def differing(path: Path | str, outputs: Outputs) -> list[str]:
    """List the outputs whose rows in a results file are missing, or are not those that were entered.

    Raises Busy, Damaged and OutOfDate as `connect` does.
    """
    with closing(connect(path, read_only=True)) as connection:
        return differing_in(connection, outputs)


def differing_in(connection: duckdb.DuckDBPyConnection, outputs: Outputs) -> list[str]:
    """List such outputs in an open results file."""
    recorded = set(connection.execute("select study_id, output, rows, digest from ingested").fetchall())
    return [row[1] for row in execute(connection, "rows_of_outputs", outputs) if row not in recorded]


def execute(connection: duckdb.DuckDBPyConnection, name: str, outputs: Outputs, into: str = "") -> list[tuple]:
    """Execute a query of the folder `queries` over a relation of outputs."""
    connection.register("outputs", pa.Table.from_pylist([dict(one) for one in outputs], schema=pa.schema(COLUMNS)))
    rows = connection.execute(into + (FOLDER / "queries" / f"{name}.sql").read_text()).fetchall()
    connection.unregister("outputs")
    return rows
