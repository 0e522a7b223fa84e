"""Record which outputs of a store have all their rows in a results file: the table `ingested`.

An output is a group of rows that are entered together: `evaluations/<key>`, `runs/<run_id>`, or one
of 'study', 'claims', 'tuning', 'tuning_settings', 'computed_ratios', 'learning_times' and
'ratios_by_difficulty'. Its study_id, run_id, tokens and task find its rows in the tables. It also
has a digest in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    ("study_id", "'study'"): (
        "studies curation sources models benchmark_levels benchmark_cards item_facts study_inputs"
        " origins found_items"
    ),
    ("study_id", "'tuning'"): "tuning",
    ("study_id", "'tuning_settings'"): "tuning_settings",
    ("study_id", "'claims'"): "claims",
    ("study_id", "'computed_ratios'"): "computed_ratios",
    ("study_id", "'learning_times'"): "learning_times",
    ("study_id", "'ratios_by_difficulty'"): "ratios_by_difficulty",
    ("study_id, run_id", "''"): "runs",
    ("run_id", "''"): "run_details steps checkpoints",
    ("run_id, tokens", "'introspection'"): "depth_attention expert_usage",
    ("run_id, tokens", "task"): (
        "evaluations evaluation_versions raw_evaluations depth_evaluations items answers"
    ),
}
# Of an output: {"study_id": "demo-1a2b3c4d", "output": "evaluations/5e6f...", "run_id": "LA-s0",
# "task": "gsm8k", "digest": "9d8c...", "tokens": 1_000_000}
COLUMNS = {
    "study_id": pa.string(),
    "output": pa.string(),
    "run_id": pa.string(),
    "task": pa.string(),
    "digest": pa.string(),
    "tokens": pa.int64(),
}


def record(connection: duckdb.DuckDBPyConnection, outputs: Outputs) -> None:
    """Record outputs whose rows were entered, in the same transaction as the rows."""
    _execute(connection, f"insert or replace into ingested by name {_rows_of_outputs()}", outputs)


def differing(path: Path | str, outputs: Outputs) -> list[str]:
    """Return the outputs whose rows are missing in a results file, or have changed.

    Raises Busy, Damaged and OutOfDate as `connect` does.
    """
    with closing(connect(path, read_only=True)) as connection:
        return differing_in(connection, outputs)


def differing_in(connection: duckdb.DuckDBPyConnection, outputs: Outputs) -> list[str]:
    """Return the outputs of an open results file whose rows are missing or have changed."""
    query = "select study_id, output, rows, digest from ingested"
    recorded = set(connection.execute(query).fetchall())
    present = _execute(connection, _rows_of_outputs(), outputs)
    return [row[1] for row in present if row not in recorded]


def forget(connection: duckdb.DuckDBPyConnection, outputs: Outputs, wrong: Sequence[str]) -> None:
    """Delete the rows of the outputs with the names `wrong`.

    Runs of their study that are not among the outputs are deleted, too.
    """
    _execute(connection, (FOLDER / "queries" / "forget_earlier.sql").read_text(), outputs)
    chosen = [output for output in outputs if output["output"] in wrong]
    deletions = [
        f"delete from {table} where ({columns}, {task}) in"
        f" (select {columns}, coalesce(task, '') from outputs)"
        for table, columns, task in _tables()
    ]
    deletions.append(
        "delete from ingested where (study_id, output) in (select study_id, output from outputs)"
    )
    _execute(connection, "; ".join(deletions), chosen)


def _tables() -> Iterator[tuple[str, str, str]]:
    """Yield the tables of `TABLES`, each with its columns and its task."""
    for (columns, task), tables in TABLES.items():
        for table in tables.split():
            yield table, columns, task


def _rows_of_outputs() -> str:
    """Return the query for the rows of outputs over the rows of all tables, which are `entered`."""
    entered = [
        f"select {columns}, nullif({task}, '') as task, hash(one) as row from {table} as one"
        for table, columns, task in _tables()
    ]
    query = (FOLDER / "queries" / "rows_of_outputs.sql").read_text()
    return f"with entered as ({' union all by name '.join(entered)}) {query}"


def _execute(connection: duckdb.DuckDBPyConnection, query: str, outputs: Outputs) -> list[tuple]:
    """Execute SQL over a relation of outputs."""
    table = pa.Table.from_pylist([dict(output) for output in outputs], schema=pa.schema(COLUMNS))
    connection.register("outputs", table)
    rows = connection.execute(query).fetchall()
    connection.unregister("outputs")
    return rows
