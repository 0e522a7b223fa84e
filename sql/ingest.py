"""Insert rows into a results file.

`ingest` inserts the rows of stages. `replace_computed` inserts rows that were computed from these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.connection import CORRUPT, connect, one_line
from dreamer_study.sql.ledger import Outputs, differing_in, forget, record

# The columns that name a group of rows, such as an evaluation, which is replaced as a whole. The
# large tables have no primary key.
GROUPS = {
    "items": "run_id, tokens, task, metric, filter",
    "answers": "run_id, tokens, task",
    "depth_attention": "run_id, tokens",
    "expert_usage": "run_id, tokens",
    "curation": "study_id",
}


def ingest(
    path: Path | str,
    tables: Mapping[str, pa.Table | Sequence[Path]],
    *,
    outputs: Outputs = (),
    wait: float = 30.0,
) -> dict[str, int]:
    """Insert rows, all or none, and return the number of rows read for each table.

    Rows are an Arrow table or Parquet files. `outputs` are recorded as entered (sql/ledger.py).

    A row with a known key replaces the given columns and keeps the others. If several rows have the
    same key, the last one counts. Items, answers, expert usage and depth attention replace all rows
    of their evaluation or checkpoint. Curation replaces all rows of its study. Repeating a call
    changes nothing, so a results file can be rebuilt at any time.

    Raises InputError for unknown tables or columns, missing key columns, values that do not fit,
    unreadable files, a run whose tokens decrease from one step to a later one, and a file that
    cannot be written, for example on a full disk.
    """
    # closing rolls back what is not committed
    with _writable(path), closing(connect(path, wait=wait)) as connection:
        primary_keys = connection.execute(
            "select table_name, constraint_column_names from duckdb_constraints()"
            " where constraint_type = 'PRIMARY KEY'"
        ).fetchall()
        keys = dict(primary_keys)
        connection.execute("begin")
        counts = {
            table: _insert(connection, table, keys.get(table, ()), rows)
            for table, rows in tables.items()
        }
        if outputs:
            record(connection, outputs)
        connection.execute("commit")
    return counts


def forget_differing(path: Path | str, outputs: Outputs, *, wait: float = 30.0) -> list[str]:
    """Delete the rows of outputs whose rows have changed since they were entered.

    `outputs` are all outputs of the study; runs that are not among them are deleted, too. Returns
    the names of the changed outputs. Raises InputError if the file cannot be written.
    """
    # closing rolls back what is not committed
    with _writable(path), closing(connect(path, wait=wait)) as connection:
        wrong = differing_in(connection, outputs)
        connection.execute("begin")
        forget(connection, outputs, wrong)
        connection.execute("commit")
    return wrong


def replace_computed(
    connection: duckdb.DuckDBPyConnection, table: str, study_id: str, rows: pd.DataFrame
) -> None:
    """Replace a study's rows of a computed table, all or none.

    Raises InputError if the file cannot be written.
    """
    query = "select path from duckdb_databases() where database_name = current_database()"
    path = connection.execute(query).fetchall()[0][0]
    with _writable(path):
        try:
            connection.execute("begin")
            connection.register("computed", rows)
            connection.execute(f"delete from {table} where study_id = ?", [study_id])
            connection.execute(f"insert into {table} by name select * from computed")
            connection.unregister("computed")
            record(connection, [{"study_id": study_id, "output": table, "task": table}])
            connection.execute("commit")
        except duckdb.Error:
            with suppress(duckdb.Error):  # a commit that failed has been rolled back
                connection.execute("rollback")
            raise


@contextmanager
def _writable(path: Path | str) -> Iterator[None]:
    """Turn an error of DuckDB while rows are written into an InputError."""
    try:
        yield
    except duckdb.Error as error:
        raise InputError(
            f"{path}: rows could not be written, and the file stays as it was: {one_line(error)};"
            " if the disk is full, make room; then give the same command again"
        ) from error


def _insert(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    keys: Sequence[str],
    rows: pa.Table | Sequence[Path],
) -> int:
    """Insert one table's rows within the open transaction; return how many were read."""
    count = rows.num_rows if isinstance(rows, pa.Table) else len(rows)
    if not count:
        return 0
    try:
        _read_incoming(connection, rows)
        names = ", ".join(connection.table("incoming").columns[1:])
        # Of an unknown column, inserting has no clear error.
        connection.execute(f"select {names} from {table} limit 0")
        group = GROUPS.get(table)
        if group:
            connection.execute(
                f"delete from {table} where ({group}) in (select distinct {group} from incoming)"
            )
            connection.execute(f"insert into {table} ({names}) select {names} from incoming")
        else:
            latest = (
                f"qualify row_number() over (partition by {', '.join(keys)} order by arrival"
                " desc) = 1"
            )
            connection.execute(
                f"insert or replace into {table} ({names}) select {names} from incoming {latest}"
            )
        if table == "steps":
            _check_steps(connection)
        return connection.execute("select count(*) from incoming").fetchall()[0][0]
    except duckdb.Error as error:
        if CORRUPT in str(error):  # the file is to blame, not the rows
            raise
        raise InputError(f"{table}: rows refused: {one_line(error)}") from error


def _check_steps(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise InputError if a run's tokens decrease, since two runs then have the same name."""
    query = "from steps_going_back where run_id in (select run_id from incoming) limit 1"
    for run, before, after, step in connection.execute(query).fetchall():
        raise InputError(
            f"steps: the tokens of run {run} decrease from {before} to {after} at step {step}; give"
            " different runs different run_id"
        )


def _read_incoming(connection: duckdb.DuckDBPyConnection, rows: pa.Table | Sequence[Path]) -> None:
    """Read rows into the temporary table `incoming`.

    Its first column `arrival` numbers the rows in the order given.
    """
    create = (
        "create or replace temp table incoming as select row_number() over () as arrival, * from "
    )
    if isinstance(rows, pa.Table):
        connection.register("arrived", rows)
        connection.execute(create + "arrived")
        connection.unregister("arrived")
        return
    connection.execute(
        create + "read_parquet(?, union_by_name = true)", [[str(file) for file in rows]]
    )
