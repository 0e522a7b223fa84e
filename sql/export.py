"""The results as files for other programs: every table and view of a results file as Parquet or CSV.

The files are written beside the folder's place under another name, which is renamed when all are there: a folder under
its final name is complete. Table macros take arguments and are left out, as is the file's own version.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from pipeline.errors import InputError
from sql.results import connect

FORMATS = {"parquet": "(format parquet, compression zstd)", "csv": "(format csv, header)"}
OWN = "schema_version"  # says nothing about a study


def export(database: Path, folder: Path, *, format: str = "parquet") -> list[Path]:
    """Write every table and view of the results file to `folder`, `<name>.<format>` each; returns the files by name.

    A folder that an earlier export wrote is replaced as a whole. Raises InputError for an unknown format, a missing
    results file, and a folder that holds anything else.
    """
    database, folder = Path(database), Path(folder)
    if format not in FORMATS:
        raise InputError(f"no export format {format!r}; there are {' and '.join(FORMATS)}")
    with closing(connect(database, read_only=True)) as connection:
        asked = (
            "select table_name from information_schema.tables "
            "where table_schema = 'main' and table_name <> ? order by table_name"
        )
        names = [row[0] for row in connection.execute(asked, [OWN]).fetchall()]
        _check_replaceable(folder, names)
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # what a killed export left
        partial.mkdir(parents=True)
        for name in names:
            place = str(partial / f"{name}.{format}").replace("'", "''")
            connection.execute(f"copy (from \"{name}\") to '{place}' {FORMATS[format]}")
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)
    return [folder / f"{name}.{format}" for name in names]


def _check_replaceable(folder: Path, names: list[str]) -> None:
    """Nothing is deleted but what an export could have written."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder to export to")
    others = [path.name for path in folder.iterdir() if path.stem not in names or path.suffix[1:] not in FORMATS]
    if others:
        raise InputError(f"{folder} holds other files ({sorted(others)[0]}); name an empty or a new folder")
