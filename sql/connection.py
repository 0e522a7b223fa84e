"""Open a results file with the tables, macros and views of this program.

A results file stores the layout of its tables and a digest of all definitions. A file with another
layout is refused. If the digest differs, a writer creates the views again. A reader never changes
the file, and hides views of another version behind its own temporary views. So a program always
reads its own views.

The views and macros of a file are SQL that somebody else may have written, and may replace tables
and DuckDB's functions. A reader may have received the file from a stranger. So a reader's
connection reaches no other file and no address.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

import duckdb

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.user_cache import user_cache
from dreamer_study.sql.definitions import INTERNAL, LAYOUT, comments, definitions, digest, views

# Packaged DuckDB shells are older than the library; they can read files of this version. The views
# must do without what such shells do not know: `case` instead of `if`, which DuckDB 2 stores in a
# form that 1.5 cannot read.
STORAGE_VERSION = "v1.2.0"
# Parts of DuckDB's messages, which distinguish its errors.
# The log of a killed writer cannot be read here, see `_read_log`.
UNREAD = re.compile("replaying WAL .*core_functions", re.DOTALL)
OPEN_HERE = "Unique file handle conflict"  # this process has the file open by another connection
LOCKED = "Could not set lock"  # another process has the file open
NO_LOCKS = re.compile("No locks available|not supported|not implemented", re.IGNORECASE)
HOLDER = re.compile(r"lock is held in (.*?)\(PID (\d+)\)")
CORRUPT = "Corrupt database file"  # the file is damaged; any query may find it
NEW_TABLE = re.compile(
    rf"^create table if not exists (?:{INTERNAL}\.)?((\w+) \(.*?^\);)", re.MULTILINE | re.DOTALL
)
# The files that this process has opened, in their order: damage within a block names no file.
opened: dict[Path, None] = {}
CREATED = re.compile(r"\bcreate or replace (macro|view)\b")


class Busy(InputError):
    """A results file is in use by another process."""


class Damaged(InputError):
    """A results file cannot be read."""


class OutOfDate(InputError):
    """A results file has no tables yet, or those of another version of the program."""


def connect(
    path: Path | str, read_only: bool = False, *, wait: float = 5.0, writes_to: Path | None = None
) -> duckdb.DuckDBPyConnection:
    """Open a results file with up-to-date views; a writer creates a missing file.

    A reader reads and writes no other file, except in the folder `writes_to`. DuckDB lets one
    process write or several processes read, so the call waits up to `wait` seconds until other
    processes close the file.

    Raises Busy, with the PID, if a process holds the file for longer; OutOfDate if the tables have
    another layout; and InputError if a reader's file is missing or is not a results file.

    While the connection is open, this process must open the file with this function only: DuckDB
    refuses `duckdb.connect(path)`, and the attempt makes this process lose its lock on the file. If
    this process opened the file by `duckdb.connect(path)` before, this function can open it, too.
    """
    path = Path(path)
    # A full disk leaves an empty file, which DuckDB does not take.
    if not path.exists() or not path.stat().st_size:
        if read_only:
            what = "an empty file" if path.exists() else "no such results file"
            raise InputError(f"{path}: {what}; run the study first")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if not _copy_empty_file(path):
            _open_new(path, wait).close()
    connection = _open(path, wait, read_only=read_only, shut=_shut(writes_to) if read_only else ())
    try:
        is_current = _is_current(connection, path, read_only)
        if not is_current and read_only:
            _lay_over(connection)
        elif not is_current:
            _create(connection, path)
        # So that our queries need not say what is internal.
        connection.execute(f"set search_path = 'main,{INTERNAL}'")
    except BaseException as error:
        connection.close()
        if CORRUPT in str(error):
            raise Damaged(f"{path}: {one_line(error)}") from error
        raise
    return connection


def _copy_empty_file(path: Path) -> bool:
    """Make a file by copying the empty one of the user's cache; return whether that was possible.

    To create the tables and views of a file takes more than a second of a core; to copy them takes
    a tenth. The copy gets its name by a link, which replaces no file that another process has made
    meanwhile.
    """
    copy = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        kept = _empty_file()
        if not kept:
            return False
        shutil.copyfile(kept, copy)
        if not _has_current_views(copy):
            kept.unlink(missing_ok=True)  # damaged: the next process makes it again
            return False
        os.link(copy, path)
    except FileExistsError:
        return True
    except OSError:  # a full disk, or one without hard links
        return False
    finally:
        copy.unlink(missing_ok=True)
    return True


def _empty_file() -> Path | None:
    """Return a results file without rows in the user's cache, which is made at the first use.

    None where there is no such cache, or no room in it.
    """
    folder = user_cache()
    if folder is None:
        return None
    kept = folder / f"results-{digest(definitions())}-{duckdb.__version__}.duckdb"
    if kept.exists():
        return kept
    made = kept.with_name(f".{kept.name}.{uuid4().hex}")
    try:
        with closing(_open_new(made, wait=0.0)) as connection:
            _create(connection, made)
        made.replace(kept)
    except (OSError, duckdb.Error, InputError):
        return None
    finally:
        made.unlink(missing_ok=True)
        opened.pop(made.resolve(), None)
    return kept


def _has_current_views(path: Path) -> bool:
    """Return whether a file can be opened and has this program's tables and views."""
    try:
        with closing(_open(path, wait=0.0)) as connection:
            return _is_current(connection, path, read_only=False)
    except (duckdb.Error, InputError):
        return False
    finally:
        opened.pop(path.resolve(), None)


def _open_new(path: Path, wait: float) -> duckdb.DuckDBPyConnection:
    """Open a file that does not exist yet.

    The storage version is chosen when a file is created, and stays.
    """
    return _open(path, wait, config={"storage_compatibility_version": STORAGE_VERSION})


def one_line(error: BaseException) -> str:
    """Return DuckDB's message on one line, without the excerpt of the query.

    For a corrupt file, the message also says what to do.
    """
    message = str(error).split("\nLINE ")[0]
    line = " ".join(message.split())
    if CORRUPT in str(error):
        line += "; remove the study's results.duckdb: the next run makes it again"
    return line


def _shut(writes_to: Path | None) -> tuple[str, ...]:
    """Return the statements that keep a connection from all files but its own.

    Files in the folder `writes_to` stay open to it. No later statement can undo this.
    """
    statements = []
    if writes_to:
        quoted = str(writes_to).replace("'", "''")
        statements.append(f"set allowed_directories = ['{quoted}']")
    statements.append("set enable_external_access = false")
    return tuple(statements)


def _open(
    path: Path,
    wait: float,
    *,
    read_only: bool = False,
    config: dict | None = None,
    shut: Sequence[str] = (),
) -> duckdb.DuckDBPyConnection:
    """Open a file as soon as no other process holds it; `shut` is executed before anything else.

    A process opens a file in one mode only. If this process has the file open for writing, a reader
    gets a writing connection, too.
    """
    # With the prefix `duckdb:` DuckDB locks the file before it reads the headers. Without the
    # prefix, DuckDB 2.0 reads the headers first, to tell the kind of file, and keeps them: rows
    # that another process enters meanwhile are lost.
    name = f"duckdb:{path.resolve()}"
    deadline = time.monotonic() + wait
    while True:
        try:
            connection = duckdb.connect(name, read_only=read_only, config=config or {})
            if read_only:
                for statement in shut:
                    connection.execute(statement)
            opened[path.resolve()] = None
            return connection
        except duckdb.ConnectionException as error:
            # This process has the file open in another mode.
            if not read_only:
                raise InputError(
                    f"{path}: this process has the file open for reading; close it before writing"
                ) from error
            read_only = False
        except duckdb.Error as error:
            if OPEN_HERE in str(error):
                name = _shared_name(path, name, error)
            elif UNREAD.search(str(error)) and _read_log(path):
                continue
            elif _is_lock(error):
                _wait_for_lock(path, deadline, error)
            else:
                raise Damaged(
                    f"{path}: cannot be opened as a results file: {one_line(error)}; `dreamer"
                    " verify STUDY --repair` removes a damaged file, and the next run makes it"
                    " again from the store"
                ) from error


def _shared_name(path: Path, name: str, error: duckdb.Error) -> str:
    """Return the name under which DuckDB shares a file that this process opened itself.

    Raises Busy if opening by that name has failed.
    """
    shared = str(path)
    if name == shared:
        raise Busy(
            f"{path}: another connection of this process has attached the file; detach it there"
        ) from error
    return shared


def _is_lock(error: duckdb.Error) -> bool:
    """Return whether opening failed because another process holds the file."""
    return isinstance(error, duckdb.IOException) and LOCKED in str(error)


def _wait_for_lock(path: Path, deadline: float, error: duckdb.Error) -> None:
    """Wait a moment before another try; raises Busy, with the PID of the holder, at the
    deadline.

    Raises InputError where the file system has no locks.
    """
    if NO_LOCKS.search(str(error)):
        raise InputError(
            f"{path}: its file system has no locks ({one_line(error)}); mount it with locks (NFS:"
            " without `nolock`), or give a folder of another disk by --root"
        ) from error
    if time.monotonic() >= deadline:
        holder = HOLDER.search(str(error))
        program = "unknown PID"
        if holder:
            program = f"{Path(holder[1].strip()).name}, PID {holder[2]}"
        raise Busy(
            f"{path}: in use by another process ({program}); close it there, or wait and try again"
        ) from error
    time.sleep(
        random.uniform(0.02, 0.2)
    )  # random, so that waiting processes try at different times


def _read_log(path: Path) -> bool:
    """Merge the log of a killed writer into its file; return whether that was possible.

    The comment on a view's column needs DuckDB's own functions. DuckDB 2.0 reads the log of a file
    that it opens before it loads these functions, and the log of a file that it attaches after.
    """
    quoted = str(path).replace("'", "''")
    with closing(duckdb.connect()) as connection, suppress(duckdb.Error):
        # The type is given for the reason of the prefix in `_open`.
        connection.execute(f"attach '{quoted}' as killed (type duckdb)")
        connection.execute("checkpoint killed")
    return not path.with_name(f"{path.name}.wal").exists()


def _is_current(connection: duckdb.DuckDBPyConnection, path: Path, read_only: bool) -> bool:
    """Return whether the file has this program's views.

    Raises InputError if its tables are not this program's.
    """
    tables = connection.execute("select table_name, schema_name from duckdb_tables()").fetchall()
    schemas = dict(tables)
    if "schema_version" in schemas:
        schema = schemas["schema_version"]
        layout, made_from = connection.execute(
            f"select version, digest from {schema}.schema_version"
        ).fetchall()[0]
        if layout == LAYOUT:
            return made_from == digest(definitions())
        raise OutOfDate(
            f"{path}: made by another version of this program (tables {layout}, here {LAYOUT});"
            " move the file away, and the next `dreamer run` makes it again from the store"
        )
    if schemas:
        raise InputError(
            f"{path}: this database has other tables and is not a results file; nothing was changed"
        )
    if read_only:
        raise OutOfDate(f"{path}: the database is empty; the next `dreamer run` makes its tables")
    return False


def temporary_views() -> dict[str, str]:
    """Return the SQL that creates the macros and views for one connection only, by name.

    They hide the macros and views of the file. They have no schema, and name each other without
    one.
    """
    texts = views()
    ours = re.compile(rf"\b{INTERNAL}\.({'|'.join(texts)})\b")
    return {
        name: CREATED.sub(r"create or replace temporary \1", ours.sub(r"\1", text))
        for name, text in texts.items()
    }


def _lay_over(connection: duckdb.DuckDBPyConnection) -> None:
    """Create temporary macros and views, which hide the macros and views of the file.

    Missing tables are created as temporary, empty tables.
    """
    rows = connection.execute("select table_name from duckdb_tables()").fetchall()
    tables = {name for (name,) in rows}
    for text in definitions().values():
        for name_and_columns, name in NEW_TABLE.findall(text):
            if name not in tables:
                connection.execute(f"create temporary table {name_and_columns}")
    for text in temporary_views().values():
        connection.execute(text)


def _create(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Create missing tables, and all macros and views again, in one transaction."""
    texts = definitions()
    try:
        connection.execute("begin")
        for text in texts.values():
            connection.execute(text)
        _comment(connection, texts)
        connection.execute(f"delete from {INTERNAL}.schema_version")
        connection.execute(
            f"insert into {INTERNAL}.schema_version values (?, ?)", [LAYOUT, digest(texts)]
        )
        connection.execute("commit")
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        raise InputError(
            f"{path}: its tables are not the tables of a results file: {one_line(error)}"
        ) from error


def _comment(connection: duckdb.DuckDBPyConnection, texts: Mapping[str, str]) -> None:
    """Set the comments of tables, views, macros and columns.

    A column without a comment gets the comment of the first column with the same name.
    """
    first_of_name = dict[str, str]()  # comments by column
    own = dict[tuple[str, str], str]()  # comments by table and column
    for kind, name, column, comment in comments(texts):
        quoted = comment.replace("'", "''")
        if column:
            own[name, column] = quoted
            first_of_name.setdefault(column, quoted)
        else:
            connection.execute(f"comment on {kind} {name} is '{quoted}'")
    query = (
        "select table_name, column_name from duckdb_columns() where schema_name = 'main' and not"
        " internal"
    )
    for table, column in connection.execute(query).fetchall():
        quoted = own.get((table, column)) or first_of_name.get(column, "")
        if quoted:
            connection.execute(f"comment on column {table}.{column} is '{quoted}'")
