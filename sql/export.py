"""Export every table and view that users query as Parquet or CSV, for other programs.

All files are written before the first one is moved to its place. `export.json` lists the files; a
later export replaces these files and nothing else. Table macros, which take arguments, and internal
tables and views are left out.
"""

from __future__ import annotations

import json
import re
import tempfile
from contextlib import closing
from pathlib import Path

import duckdb
import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.connection import STORAGE_VERSION, connect, one_line
from dreamer_study.sql.definitions import FOLDER, INTERNAL

FORMATS = {"parquet": "(format parquet, compression zstd)", "csv": "(format csv, header)"}
LIST = "export.json"
# In CSV, an apostrophe comes before a text that a spreadsheet would run, which is one that begins
# with one of these characters and is not a number.
RUN = r"^[=+\-@\t\r\n]"
NUMBER = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+|inf)([eE][-+]?[0-9]+)?"
_CELL = """case
    when regexp_matches({text}, '{run}') and not regexp_full_match({text}, '{number}')
        then '''' || {text}
    else {text}
end as {name}"""


def export(database: Path, folder: Path, *, format: str = "parquet") -> list[Path]:
    """Write every table and view of a results file to `folder`, as `<name>.<format>`.

    Returns the files, sorted by name. A new folder is complete as soon as it exists. An interrupted
    export into an existing folder can be repeated. Raises InputError for an unknown format, a
    missing results file, a folder with other files than an earlier export, and a table or view that
    cannot be written.
    """
    database = Path(database)
    folder = Path(folder).resolve()
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}; the formats are {' and '.join(FORMATS)}")
    with closing(connect(database, read_only=True)) as connection:
        query = (
            "select distinct table_name from information_schema.tables where table_schema = 'main'"
            " order by 1"
        )
        # Temporary views, for a file of another version, have no schema.
        internal = {file.stem for file in (FOLDER / INTERNAL).rglob("*.sql")}
        names = [name for (name,) in connection.execute(query).fetchall() if name not in internal]
    files = {name: f"{name}.{format}" for name in names}
    _check_replaceable(folder)
    beside = folder if folder.exists() else folder.parent
    beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".dreamer-export-", dir=beside) as unfinished:
        made = Path(unfinished) / "export"
        made.mkdir()
        with closing(connect(database, read_only=True, writes_to=made)) as connection:
            for name, file in files.items():
                _write(connection, database, name, made / file, format)
        (made / LIST).write_text(json.dumps({"files": [*files.values()]}, indent=1))
        _put(made, folder)
    return [folder / file for file in files.values()]


def copy_afresh(database: Path, target: Path) -> None:
    """Copy all rows of a results file, including rows in its log, to a new file.

    The new file has no traces of deleted rows.
    """
    source = _quoted(database)
    copy = _quoted(target)
    with closing(duckdb.connect()) as connection:
        connection.execute(f"attach {source} as source (type duckdb, read_only)")
        connection.execute(f"attach {copy} as made (storage_version '{STORAGE_VERSION}')")
        connection.execute("copy from database source to made")
    connect(target).close()  # with the views of this program


def _quoted(path: Path) -> str:
    """Quote a path as a text of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def plain_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with an apostrophe before each text that a spreadsheet would run."""
    texts = table.apply(
        lambda column: column if column.dtype.kind in "biufmM" else column.map(_plain_cell)
    )
    return texts.rename(columns=_plain_cell)


def _plain_cell(value: object) -> object:
    runs = isinstance(value, str) and re.match(RUN, value) and not re.fullmatch(NUMBER, value)
    return f"'{value}" if runs else value


def _write(
    connection: duckdb.DuckDBPyConnection, database: Path, name: str, file: Path, format: str
) -> None:
    table = _quoted_name(name)
    try:
        rows = f"from {table}"
        if format == "csv":
            columns = connection.execute(f"from {table} limit 0").description or []
            cells = ", ".join(_plain_column(column[0]) for column in columns)
            rows = f"select {cells} from {table}"
        connection.execute(f"copy ({rows}) to {_quoted(file)} {FORMATS[format]}")
    except duckdb.Error as error:  # a full disk, or a view that reads another file
        raise InputError(f"{database}: {name} cannot be exported: {one_line(error)}") from error


def _plain_column(name: str) -> str:
    """Write SQL for a column, head and cells, that no spreadsheet runs."""
    text = f"{_quoted_name(name)}::varchar"
    head = _quoted_name(str(_plain_cell(name)))
    return _CELL.format(text=text, run=RUN, number=NUMBER, name=head)


def _quoted_name(name: str) -> str:
    """Quote a name of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _put(made: Path, folder: Path) -> None:
    """Move all files to their place, after removing the files of an earlier export."""
    if not folder.exists():
        made.rename(folder)
        return
    for name in _listed(folder):
        (folder / name).unlink(missing_ok=True)
    # The list comes before the files: an interrupted export can then be replaced.
    (made / LIST).replace(folder / LIST)
    for file in made.iterdir():
        file.replace(folder / file.name)


def _check_replaceable(folder: Path) -> None:
    """Raise InputError if the folder holds other files than an earlier export."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    listed = _listed(folder)
    own = {LIST, *listed} if listed else set()
    others = [path.name for path in folder.iterdir() if not (path.name in own and path.is_file())]
    if others:
        raise InputError(
            f"{folder} holds other files ({min(others)}); name an empty or a new folder"
        )


def _listed(folder: Path) -> list[str]:
    """Return the names of the files of an earlier export into this folder."""
    try:
        files = json.loads((folder / LIST).read_text())["files"]
        return [name for name in files if Path(name).name == name]
    except (OSError, ValueError, TypeError, KeyError):
        return []
