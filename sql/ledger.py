"""Know which outputs of a store have their rows in a results file, whole: the table `ingested`.

An output is a group of rows entered at once: `evaluations/<key>`, `runs/<run_id>`, and of the study
itself 'study', 'claims', 'tuning' and 'computed_factors'. It is given with study_id, run_id, tokens
and task, by which its rows in the tables are found, and with its digest in the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dreamer_study.sql.connection import connect
from dreamer_study.sql.definitions import FOLDER

Outputs = Sequence[Mapping[str, Any]]
# The tables that hold the rows of an output, by the columns that both have in common, and by its
# task ('' for none).
TABLES = {
    ("study_id", "'study'"): "studies curation sources models",
    ("study_id", "'tuning'"): "tuning",
    ("study_id", "'claims'"): "claims",
    ("study_id", "'computed_factors'"): "computed_factors",
    ("study_id, run_id", "''"): "runs",
    ("run_id", "''"): "run_details steps checkpoints",
    ("run_id, tokens", "'introspection'"): "depth_attention expert_usage",
    (
        "run_id, tokens",
        "task",
    ): "evaluations evaluation_versions raw_evaluations depth_evaluations items answers",
}
COLUMNS = {
    **dict.fromkeys(("study_id", "output", "run_id", "task", "digest"), pa.string()),
    "tokens": pa.int64(),
}


def record(connection: duckdb.DuckDBPyConnection, outputs: Outputs) -> None:
    """Record outputs whose rows were entered, within the transaction in which they were."""
    _execute(connection, f"insert or replace into ingested by name {_rows_of_outputs()}", outputs)


def differing(path: Path | str, outputs: Outputs) -> list[str]:
    """List the outputs whose rows in a results file are missing, or are not those that were
    entered.

    Raises Busy, Damaged and OutOfDate as `connect` does.
    """
    with closing(connect(path, read_only=True)) as connection:
        return differing_in(connection, outputs)


def differing_in(connection: duckdb.DuckDBPyConnection, outputs: Outputs) -> list[str]:
    """List such outputs in an open results file."""
    recorded = set(
        connection.execute("select study_id, output, rows, digest from ingested").fetchall()
    )
    return [
        row[1] for row in _execute(connection, _rows_of_outputs(), outputs) if row not in recorded
    ]


def forget(connection: duckdb.DuckDBPyConnection, outputs: Outputs, wrong: Sequence[str]) -> None:
    """Delete the rows of the outputs that are named, and the runs of their study that are not among
    the outputs."""
    _execute(connection, (FOLDER / "queries" / "forget_earlier.sql").read_text(), outputs)
    place = "{0} where ({1}, {2}) in (select {1}, coalesce(task, '') from outputs)"
    deleted = [
        place.format(table, *key) for key, tables in TABLES.items() for table in tables.split()
    ]
    deleted.append("ingested where (study_id, output) in (select study_id, output from outputs)")
    chosen = [output for output in outputs if output["output"] in wrong]
    _execute(connection, "; ".join(f"delete from {rows}" for rows in deleted), chosen)


def _rows_of_outputs() -> str:
    """Return the query for the rows of outputs over the rows of all tables, which are `entered`."""
    row = "select {1}, nullif({2}, '') as task, hash(one) as row from {0} as one"
    entered = [
        row.format(table, *key) for key, tables in TABLES.items() for table in tables.split()
    ]
    query = (FOLDER / "queries" / "rows_of_outputs.sql").read_text()
    return f"with entered as ({' union all by name '.join(entered)}) {query}"


def _execute(connection: duckdb.DuckDBPyConnection, query: str, outputs: Outputs) -> list[tuple]:
    """Execute SQL over a relation of outputs."""
    connection.register(
        "outputs", pa.Table.from_pylist([dict(one) for one in outputs], schema=pa.schema(COLUMNS))
    )
    rows = connection.execute(query).fetchall()
    connection.unregister("outputs")
    return rows
