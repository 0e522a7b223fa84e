"""Query the results file of a study, `results.duckdb`.

`connect` opens the file, `ingest` inserts rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.connection import (
    CORRUPT,
    Busy,
    Damaged,
    OutOfDate,
    connect,
    one_line,
    opened,
)
from dreamer_study.sql.definitions import FOLDER
from dreamer_study.sql.ingest import ingest

__all__ = ["Busy", "Damaged", "OutOfDate", "ask", "connect", "ingest", "query", "read_all"]


def ask(path: Path | str, name: str, **parameters: Any) -> pd.DataFrame:
    """Return the rows of the query in the file `queries/<name>.sql`.

    `parameters` are the values of the names that the query marks with `$`.
    """
    return query(path, (FOLDER / "queries" / f"{name}.sql").read_text(), parameters)


def query(path: Path | str, sql: str, parameters: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Return the rows of a query, which cannot change the file.

    `parameters` are the values of the names that the query marks with `$`. Raises InputError for
    SQL that DuckDB refuses, and for more or fewer than one statement.
    """
    with closing(connect(path, read_only=True)) as connection:
        try:
            statements = len(connection.extract_statements(sql))
            if statements != 1:
                raise InputError(f"query refused: it has {statements or 'no'} statements; give one")
            connection.execute("set search_path = 'main'")  # as in any other program
            connection.execute("begin transaction read only")
            return connection.execute(sql, parameters or {}).df()
        except duckdb.Error as error:
            if CORRUPT in str(error):
                raise Damaged(f"{path}: {one_line(error)}") from error
            raise InputError(f"query refused: {one_line(error)}") from error


def read_all(path: Path | str) -> None:
    """Read every row of every table; DuckDB compares them with checksums.

    Raises Damaged if that fails.
    """
    query = "select table_name from duckdb_tables() where not temporary"
    with closing(connect(path, read_only=True)) as connection:
        try:
            for (name,) in connection.execute(query).fetchall():
                # all rows, since a query may skip blocks
                for _ in pa.RecordBatchReader.from_stream(connection.table(name)):
                    pass
        except duckdb.Error as error:
            raise Damaged(f"{path}: cannot be read: {one_line(error)}") from error


def with_file(error: BaseException) -> str:
    """Return DuckDB's message on one line; of damage with the file, which DuckDB does not name."""
    line = one_line(error)
    if CORRUPT not in str(error):
        return line
    for path in opened:
        if path.exists():
            try:
                read_all(path)
            except InputError:
                return f"{path}: {line}"
    return line
