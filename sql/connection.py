"""Open a results file with the tables, macros and views of this program.

A results file stores the version of its tables and a digest of their definitions. A writer migrates the tables and
creates the views again. A reader never changes the file: over views of another program the reader lays temporary ones
of its own. So views are always those of the program that reads them.
"""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import duckdb

from pipeline.errors import InputError
from sql.definitions import definitions, digest, migrations, views

# Packaged DuckDB shells are older than the library; they can read files of this version. The views must do without what
# such shells do not know: `case` instead of `if`, which DuckDB 2 stores in a form that 1.5 cannot read.
STORAGE_VERSION = "v1.2.0"
CREATED = re.compile(r"\bcreate or replace (macro|view)\b")


class Busy(InputError):
    """A results file is in use by another process."""


class Damaged(InputError):
    """A results file cannot be read."""


class OutOfDate(InputError):
    """A results file has the tables of an older program."""


def connect(path: Path | str, read_only: bool = False, *, wait: float = 5.0) -> duckdb.DuckDBPyConnection:
    """Open a results file with up-to-date views; a writer creates a missing file and migrates the tables of an old one.

    DuckDB lets one process write or several read, so the call waits up to `wait` seconds for other processes to close
    the file. Raises Busy when a process holds the file longer (naming its PID), OutOfDate when the tables of a reader's
    file are older, and InputError when a reader's file is missing, when the file is not a results file, and when a
    newer version of the program made the file.
    """
    path = Path(path)
    if not path.exists():
        if read_only:
            raise InputError(f"{path}: no such results file; run the study first")
        path.parent.mkdir(parents=True, exist_ok=True)
        # The storage version is chosen when a file is created and stays.
        _open(path, wait, config={"storage_compatibility_version": STORAGE_VERSION}).close()
    connection = _open(path, wait, read_only=read_only)
    try:
        if not _is_current(connection, path):
            (_lay_views_over if read_only else _bring_up_to_date)(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def one_line(error: Exception) -> str:
    """Return DuckDB's message on one line, without the excerpt of the query."""
    return " ".join(str(error).split("\nLINE ")[0].split())


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
        except duckdb.Error as error:
            if not isinstance(error, duckdb.IOException) or "Could not set lock" not in str(error):
                raise Damaged(
                    f"{path}: cannot be opened as a results file: {one_line(error)}; `dreamer verify STUDY --repair` "
                    "removes a damaged one, and the next run makes it again from the store"
                ) from error
            if time.monotonic() >= deadline:
                holder = re.search(r"lock is held in (.*?)\(PID (\d+)\)", str(error))
                program = f"{Path(holder[1].strip()).name}, PID {holder[2]}" if holder else "unknown PID"
                raise Busy(
                    f"{path}: in use by another process ({program}); close it there, or wait, and try again"
                ) from error
            time.sleep(random.uniform(0.02, 0.2))


def _stamp(connection: duckdb.DuckDBPyConnection) -> tuple[int, str] | None:
    """Return the stored version and digest; None for a new file, or another program's."""
    try:
        return connection.execute("select version, digest from schema_version").fetchall()[0]
    except duckdb.CatalogException:
        return None


def _is_current(connection: duckdb.DuckDBPyConnection, path: Path) -> bool:
    stamp, version = _stamp(connection), 1 + len(migrations())
    if stamp and stamp[0] > version:
        raise InputError(f"{path}: made by a newer version (tables {stamp[0]}, here {version}); update this program")
    if not stamp and connection.execute("from duckdb_tables() limit 1").fetchall():
        raise InputError(f"{path}: a database of other tables, not a results file; nothing in it was changed")
    return stamp == (version, digest(definitions()))


def temporary(text: str) -> str:
    """Return the SQL of macros and views that are created for one connection alone, over those of the file."""
    return CREATED.sub(r"create or replace temporary \1", text)


def _lay_views_over(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Create this program's macros and views as temporary ones, which hide those of the file.

    Raises OutOfDate for a file whose tables are older than they need.
    """
    stamp, version = _stamp(connection), 1 + len(migrations())
    if stamp is None or stamp[0] < version:
        raise OutOfDate(
            f"{path}: made by an older version (tables {stamp[0] if stamp else 0}, here {version}); "
            f"`dreamer migrate {path}` brings the file up to date"
        )
    for text in views().values():
        connection.execute(temporary(text))


def _bring_up_to_date(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Migrate the tables and create all macros and views again, in one transaction."""
    stamp, texts, steps = _stamp(connection), definitions(), migrations()
    try:
        connection.execute("begin")
        for text in [*(steps[stamp[0] - 1 :] if stamp else ()), *texts.values()]:
            connection.execute(text)
        connection.execute("delete from schema_version")
        connection.execute("insert into schema_version values (?, ?)", [1 + len(steps), digest(texts)])
        connection.execute("commit")
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        raise InputError(f"{path}: its tables are not those of a results file: {one_line(error)}") from error
