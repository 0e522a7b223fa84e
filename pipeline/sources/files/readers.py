"""Open the reader of a Parquet, JSON lines, JSON or CSV file, also compressed (.gz, .zst), by its name.

Readers yield blocks of bounded size (`pipeline.sources.files.blocks`). A broken JSON line, or a CSV record of another
length, is a malformed row. A file that ends early, a broken element of a JSON array and UTF-16 raise InputError. Single
bytes that are not UTF-8 become U+FFFD, which cleaning counts.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import InputError
from pipeline.sources.files.parquet_rows import ParquetRows
from pipeline.sources.files.record_rows import RecordRows

COMPRESSIONS = (".gz", ".zst")
SUFFIXES = (
    ".parquet",
    *(f".{kind}{compression}" for kind in ("jsonl", "json", "csv") for compression in ("", *COMPRESSIONS)),
)


def open_rows(path: Path) -> ParquetRows | RecordRows:
    """Open a reader for the file. Raises InputError for a name without a known ending and an unreadable file."""
    if not path.name.endswith(SUFFIXES):
        raise InputError(f"{path}: unknown kind of file; known are {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    return ParquetRows(path) if path.suffix == ".parquet" else RecordRows(path)


def count_rows(path: Path) -> int | None:
    """Count the rows of a file of Parquet or JSON lines; None for other kinds, which have to be parsed for that."""
    reader = open_rows(path)
    return reader.rows if isinstance(reader, ParquetRows) else reader.count_lines()
