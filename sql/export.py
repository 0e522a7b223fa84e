"""Export every table and view of a results file as Parquet or CSV, for other programs.

All files are written before the first is moved to its place. `export.json` lists the files: a later export replaces
these and nothing else. Table macros take arguments and are left out, as is the version of the file.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import duckdb

from pipeline.errors import InputError
from sql.connection import connect, one_line

FORMATS = {"parquet": "(format parquet, compression zstd)", "csv": "(format csv, header)"}
VERSION = "schema_version"  # says nothing about a study
LIST = "export.json"
UNFINISHED = ".dreamer-export-"  # begins the name of the folder that an export writes into


def export(database: Path, folder: Path, *, format: str = "parquet") -> list[Path]:
    """Write every table and view of a results file to `folder`, `<name>.<format>` each; return the files by name.

    A new folder is complete as soon as it exists; an interrupted export into an existing folder can be repeated. Raises
    InputError for an unknown format, a missing results file, a folder that holds anything but an earlier export, and a
    table or view that cannot be written.
    """
    database, folder = Path(database), Path(folder).resolve()
    if format not in FORMATS:
        raise InputError(f"no export format {format!r}; there are {' and '.join(FORMATS)}")
    with closing(connect(database, read_only=True)) as connection:
        wanted = (
            "select distinct table_name from information_schema.tables "
            "where table_schema = 'main' and table_name <> ? order by table_name"
        )
        files = {name: f"{name}.{format}" for (name,) in connection.execute(wanted, [VERSION]).fetchall()}
        _check_replaceable(folder)
        beside = folder if folder.exists() else folder.parent
        beside.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=beside) as unfinished:
            made = Path(unfinished) / "export"
            made.mkdir()
            for name, file in files.items():
                _write(connection, database, name, made / file, FORMATS[format])
            (made / LIST).write_text(json.dumps({"files": [*files.values()]}, indent=1))
            _put(made, folder)
    return [folder / file for file in files.values()]


def _write(connection: duckdb.DuckDBPyConnection, database: Path, name: str, file: Path, options: str) -> None:
    place, quoted = str(file).replace("'", "''"), name.replace('"', '""')
    try:
        connection.execute(f"copy (from \"{quoted}\") to '{place}' {options}")
    except duckdb.Error as error:  # a full disk; a user's own view of a file that is gone
        raise InputError(f"{database}: {name} cannot be exported: {one_line(error)}") from error


def _put(made: Path, folder: Path) -> None:
    """Move all files to their place, after removing those of an earlier export."""
    if not folder.exists():
        made.rename(folder)
        return
    for name in _listed(folder):
        (folder / name).unlink(missing_ok=True)
    (made / LIST).replace(folder / LIST)  # before the files: an interrupted export can then be replaced
    for file in made.iterdir():
        file.replace(folder / file.name)


def _check_replaceable(folder: Path) -> None:
    """Raise InputError if the folder holds anything but an earlier export; remove the leavings of a killed export."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder to export to")
    listed, paths = _listed(folder), list(folder.iterdir())
    own = {LIST, *listed} if listed else set()
    left = [path for path in paths if path.name.startswith(UNFINISHED)]
    others = [path.name for path in paths if path not in left and not (path.name in own and path.is_file())]
    if others:
        raise InputError(f"{folder} holds other files ({min(others)}); name an empty or a new folder")
    for path in left:
        shutil.rmtree(path, ignore_errors=True)


def _listed(folder: Path) -> list[str]:
    """Return the names of the files of an earlier export into this folder."""
    try:
        files = json.loads((folder / LIST).read_text())["files"]
        return [name for name in files if Path(name).name == name]
    except (OSError, ValueError, TypeError, KeyError):
        return []
