"""The results file of a study, `results.duckdb`: opening it, entering rows, asking it.

Tables are in `schema.sql`, every view and macro in a file of its own; this module only runs them. A file remembers the
version of its tables and a digest of its views: opening it with a newer program migrates the tables and makes the views
again, so that the views are always those of the program that looks.

DuckDB lets one process write or several read. So whoever writes opens, enters its rows in one transaction and closes;
`ingest` may be repeated with the same rows, which makes the file rebuildable from the store at any time.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa

from pipeline.errors import InputError

FOLDER = Path(__file__).resolve().parent
# In the order in which they build on each other.
VIEWS = (
    "reaches",
    "log_crossing",
    "curve_value",
    "curve_tokens",
    "variant_order",
    "model_runs",
    "chosen_metric",
    "token_accuracy",
    "token_perplexity",
    "curve_points",
    "mean_curves",
    "accuracy_curve",
    "best_accuracy",
    "tokens_to",
    "efficiency_against",
    "data_efficiency",
    "data_efficiency_interpolated",
    "compute_efficiency",
    "efficiency_fitted",
    "data_efficiency_fitted",
    "fitted_tokens_to",
    "fitted_lines",
    "depth_accuracy",
    "table_1",
    "table_2",
    "funnel_by_source",
    "funnel",
    "expert_selections",
    "expert_ranks",
    "expert_lorenz",
    "expert_gini",
    "expert_diversity",
    "scored_points",
    "paired_scores",
    "compared_tasks",
    "compared_scores",
    "compared_factors",
    "stream_mismatches",
    "steps_going_back",
    "rows_entered_twice",
)
# What identifies a row: entering it again replaces it.
KEYS = {
    "studies": ("study_id",),
    "curation": ("study_id", "source", "stage", "reason"),
    "models": ("study_id", "model_id"),
    "runs": ("study_id", "run_id"),
    "steps": ("run_id", "step"),
    "checkpoints": ("run_id", "tokens"),
    "evaluations": ("run_id", "tokens", "task", "metric", "filter"),
    "evaluation_versions": ("run_id", "tokens", "task"),
    "depth_evaluations": ("run_id", "tokens", "depth", "task", "metric", "filter"),
    "items": ("run_id", "tokens", "task", "metric", "filter", "item_id"),
    "depth_attention": ("run_id", "tokens", "query_depth", "key_depth"),
    "expert_usage": ("run_id", "tokens", "depth", "expert"),
    "benchmarks": ("task",),
    "metrics": ("metric",),
    "stages": ("stage",),
}
# The large tables are replaced by groups: all rows of an evaluation or of a checkpoint together (see schema.sql).
GROUPS = {
    "items": ("run_id", "tokens", "task", "metric", "filter"),
    "depth_attention": ("run_id", "tokens"),
    "expert_usage": ("run_id", "tokens"),
}
# Packaged DuckDB shells are older than the library; they can read files of this version. The views must do without what
# such shells do not know: `case` instead of `if`, which DuckDB 2 stores in a form that 1.5 cannot read.
STORAGE_VERSION = "v1.2.0"


def connect(path: Path | str, read_only: bool = False, *, wait: float = 5.0) -> duckdb.DuckDBPyConnection:
    """Open a results file with its tables and views up to date; a writer creates it if it is not there.

    Another process that holds the file is waited for up to `wait` seconds. Raises InputError when it still does, naming
    its PID, and when the file is missing (reading), is not a results file, or was made by a newer version.
    """
    path = Path(path)
    if not path.exists():
        if read_only:
            raise InputError(f"{path}: no such results file; run the study first")
        path.parent.mkdir(parents=True, exist_ok=True)
        # The storage version is chosen when a file is created and stays.
        _open(path, wait, config={"storage_compatibility_version": STORAGE_VERSION}).close()
    if read_only:
        connection = _open(path, wait, read_only=True)
        if _is_current(connection, path):
            return connection
        connection.close()
        connect(path, wait=wait).close()  # brings it up to date
        return _open(path, wait, read_only=True)
    connection = _open(path, wait)
    try:
        if not _is_current(connection, path):
            _bring_up_to_date(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def ingest(path: Path | str, tables: Mapping[str, pa.Table | Sequence[Path]], *, wait: float = 30.0) -> dict[str, int]:
    """Enter rows, all or none: for each table an Arrow table or Parquet files. Returns the rows read for each.

    A row whose key is there replaces it in the columns given and keeps the others; of rows with one key the last in the
    given order counts. Items, expert usage and depth attention replace all rows of their evaluation or checkpoint.

    Raises InputError for unknown tables or columns, missing key columns, values that do not fit, unreadable files, and
    a run whose tokens go back from one step to a later one.
    """
    unknown = sorted(set(tables) - set(KEYS))
    if unknown:
        raise InputError(f"no table {unknown[0]!r} in the results{_nearest(unknown[0], KEYS)}")
    connection = connect(path, wait=wait)
    try:
        connection.execute("begin")
        counts = {table: _enter(connection, table, rows) for table, rows in tables.items()}
        connection.execute("commit")
    finally:
        connection.close()  # rolls back what is not committed
    return counts


def replace_computed(connection: duckdb.DuckDBPyConnection, study_id: str, frames: Mapping[str, pd.DataFrame]) -> None:
    """Put what was computed from a study's rows in place of its earlier rows, all or none; a reader stores nothing."""
    writable = "select not readonly from duckdb_databases() where database_name = current_database()"
    if not connection.execute(writable).fetchall()[0][0]:
        return
    connection.execute("begin")
    for table, frame in frames.items():
        connection.register("computed", frame)
        connection.execute(f"delete from {table} where study_id = ?", [study_id])
        connection.execute(f"insert into {table} by name select * from computed")
        connection.unregister("computed")
    connection.execute("commit")


def query(path: Path | str, sql: str) -> pd.DataFrame:
    """The rows of a query, which cannot change the file. Raises InputError for SQL that DuckDB refuses."""
    connection = connect(path, read_only=True)
    try:
        statements = len(connection.extract_statements(sql))
        if statements != 1:
            raise InputError(f"query refused: it holds {statements or 'no'} statements; give one")
        connection.execute("begin transaction read only")
        return connection.execute(sql).df()
    except duckdb.Error as error:
        raise InputError(f"query refused: {said(error)}") from error
    finally:
        connection.close()


def tables(path: Path | str) -> pd.DataFrame:
    """What can be asked: name, kind (table, view or macro), description and columns (or parameters) of everything."""
    return query(path, (FOLDER / "tables.sql").read_text())


def _open(path: Path, wait: float, *, read_only: bool = False, config: dict | None = None) -> duckdb.DuckDBPyConnection:
    deadline = time.monotonic() + wait
    while True:
        try:
            return duckdb.connect(str(path), read_only=read_only, config=config or {})
        except duckdb.ConnectionException as error:
            # This process has the file open in another mode, and DuckDB wants one mode for a process.
            if not read_only:
                raise InputError(f"{path}: already open in this process, not for writing; close it first") from error
            read_only = False
        except duckdb.IOException as error:
            holder = re.search(r"lock is held in (.*?)\(PID (\d+)\)", str(error))
            if "Could not set lock" not in str(error):
                raise InputError(f"{path}: cannot be opened as a results file: {said(error)}") from error
            if time.monotonic() >= deadline:
                program = f"{Path(holder[1].strip()).name}, PID {holder[2]}" if holder else "unknown PID"
                raise InputError(
                    f"{path}: in use by another process ({program}); close it there, or wait, and try again"
                ) from error
            time.sleep(random.uniform(0.02, 0.2))
        except duckdb.Error as error:
            raise InputError(f"{path}: cannot be opened as a results file: {said(error)}") from error


def _migrations() -> list[Path]:
    """`migration_0002.sql` takes the tables from version 1 to 2, and so on; schema.sql is the newest version."""
    return sorted(FOLDER.glob("migration_[0-9][0-9][0-9][0-9].sql"))


def _digest() -> str:
    names = ("schema", *VIEWS)
    return hashlib.blake2b(b"\0".join((FOLDER / f"{n}.sql").read_bytes() for n in names), digest_size=16).hexdigest()


def _stamp(connection: duckdb.DuckDBPyConnection) -> tuple[int, str] | None:
    try:
        return connection.execute("select version, digest from schema_version").fetchall()[0]
    except duckdb.CatalogException:  # a new file, or one that is not ours
        return None


def _is_current(connection: duckdb.DuckDBPyConnection, path: Path) -> bool:
    stamp, version = _stamp(connection), 1 + len(_migrations())
    if stamp and stamp[0] > version:
        connection.close()
        raise InputError(f"{path}: made by a newer version (tables {stamp[0]}, here {version}); update this program")
    if not stamp and connection.execute("from duckdb_tables() limit 1").fetchall():
        connection.close()
        raise InputError(f"{path}: a database of other tables, not a results file; nothing in it was changed")
    return stamp == (version, _digest())


def _bring_up_to_date(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Migrate the tables and make all views again, in one transaction."""
    stamp, migrations = _stamp(connection), _migrations()
    try:
        connection.execute("begin")
        for migration in migrations[stamp[0] - 1 :] if stamp else ():
            connection.execute(migration.read_text())
        for name in ("schema", *VIEWS):
            connection.execute((FOLDER / f"{name}.sql").read_text())
        connection.execute("delete from schema_version")
        connection.execute("insert into schema_version values (?, ?)", [1 + len(migrations), _digest()])
        connection.execute("commit")
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        raise InputError(f"{path}: its tables are not those of a results file: {said(error)}") from error


def _enter(connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table | Sequence[Path]) -> int:
    """Enter one table's rows within the open transaction."""
    if not (rows.num_rows if isinstance(rows, pa.Table) else rows):
        return 0
    try:
        # `arrival` is the order given: Arrow tables and Parquet files are read in order.
        create = "create or replace temp table incoming as select row_number() over () as arrival, * from "
        if isinstance(rows, pa.Table):
            connection.register("arrived", rows)
            connection.execute(create + "arrived")
            connection.unregister("arrived")
        else:
            missing = [file for file in rows if not Path(file).is_file()]
            if missing:
                raise InputError(f"{table}: no such file: {missing[0]}")
            files = [str(file) for file in rows]
            connection.execute(create + "read_parquet(?, union_by_name = true)", [files])
        columns = _checked_columns(connection, table)
        names, keys = ", ".join(columns), ", ".join(KEYS[table])
        last = f"from incoming qualify row_number() over (partition by {keys} order by arrival desc) = 1"
        insert = "insert or replace"
        if table in GROUPS:
            insert = "insert"
            group = ", ".join(GROUPS[table])
            connection.execute(f"delete from {table} where ({group}) in (select distinct {group} from incoming)")
            repeated = f"select 1 from incoming group by {keys} having count(*) > 1 limit 1"
            if not connection.execute(repeated).fetchall():  # the usual case; sorting repetitions out scatters the rows
                last = "from incoming"
        connection.execute(f"{insert} into {table} ({names}) select {names} {last}")
        _check_entered(connection, table)
        return connection.execute("select count(*) from incoming").fetchall()[0][0]
    except duckdb.Error as error:
        raise InputError(f"{table}: rows refused: {said(error)}") from error


def _checked_columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """The columns that arrived, all of them the table's and every key among them."""
    given, known = connection.table("incoming").columns[1:], connection.table(table).columns
    for column in given:
        if column not in known:
            raise InputError(f"{table}: no column {column!r}{_nearest(column, known)}; it has {', '.join(known)}")
    for key in KEYS[table]:
        if key not in given:
            raise InputError(f"{table}: the key column {key!r} is missing; given were {', '.join(given)}")
    return given


def _check_entered(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """What a table's own constraints cannot say."""
    if table == "steps":  # rows of two different runs under one name would show here
        entered = "from steps_going_back where run_id in (select run_id from incoming) limit 1"
        back = connection.execute(entered).fetchall()
        if back:
            raise InputError("steps: run {} goes back from {} tokens to {} at step {}".format(*back[0]))
    if (
        table in ("evaluations", "depth_evaluations")
        and connection.execute("from incoming where task = 'average' limit 1").fetchall()
    ):
        raise InputError(f"{table}: the task name 'average' is taken by the average curve; rename the benchmark")


def _nearest(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f" (nearest: {close[0]!r})" if close else ""


def said(error: Exception) -> str:
    """DuckDB's message on one line, without the excerpt of the query."""
    return " ".join(str(error).split("\nLINE ")[0].split())
