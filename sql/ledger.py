"""Know which outputs of a store have their rows in a results file, whole: the table `ingested`.

An output is what was entered at once: `evaluations/<key>`, `runs/<run_id>`, and of the study itself 'study', 'claims'
and 'computed_factors'. Outputs are given with study_id, run_id, tokens and task, which tell their rows in the tables
(queries/rows_of_outputs.sql), and with their digest in the store.
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

COLUMNS = pa.schema(
    [
        ("study_id", pa.string()),
        ("output", pa.string()),
        ("run_id", pa.string()),
        ("tokens", pa.int64()),
        ("task", pa.string()),
        ("digest", pa.string()),
    ]
)
DIFFERING = "select output from outputs where (study_id, output) not in (select study_id, output from ({}) as here \
join ingested using (study_id, output, rows, digest))"


def record(connection: duckdb.DuckDBPyConnection, outputs: Sequence[Mapping[str, Any]]) -> None:
    """Record outputs whose rows were entered, within the transaction in which they were."""
    _register(connection, outputs)
    connection.execute(f"insert or replace into ingested by name {_query('rows_of_outputs')}")
    connection.unregister("outputs")


def differing(path: Path | str, outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the outputs whose rows in a results file are missing, or are not those that were entered.

    Raises Busy, Damaged and OutOfDate as `connect` does.
    """
    with closing(connect(path, read_only=True)) as connection:
        try:
            return _differing(connection, outputs)
        except duckdb.CatalogException:  # a file from before the ledger
            return [output["output"] for output in outputs]


def forget_differing(path: Path | str, outputs: Sequence[Mapping[str, Any]], *, wait: float = 30.0) -> list[str]:
    """Delete the rows of outputs whose rows are not those that were entered; returns these outputs, to be entered."""
    with closing(connect(path, wait=wait)) as connection:  # closing rolls back what is not committed
        wrong = _differing(connection, outputs)
        _register(connection, [output for output in outputs if output["output"] in wrong])
        connection.execute("begin")
        connection.execute(_query("forget_outputs"))
        connection.execute("commit")
    return wrong


def _differing(connection: duckdb.DuckDBPyConnection, outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    _register(connection, outputs)
    return [name for (name,) in connection.execute(DIFFERING.format(_query("rows_of_outputs"))).fetchall()]


def _register(connection: duckdb.DuckDBPyConnection, outputs: Sequence[Mapping[str, Any]]) -> None:
    connection.register("outputs", pa.Table.from_pylist([dict(output) for output in outputs], schema=COLUMNS))


def _query(name: str) -> str:
    return (FOLDER / "queries" / f"{name}.sql").read_text()
