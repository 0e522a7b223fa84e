"""Open the reader of a file by its name: Parquet, Arrow, JSON lines, JSON, CSV or text.

All but Parquet and Arrow may be compressed (.gz, .zst, .xz, .bz2, .zip with one file). Readers
yield blocks of bounded size (`pipeline/sources/files/blocks.py`), also of small files that unpack
to much (`unpacking.py`). Numbers and dates of JSON and CSV are texts as they are written. A broken
JSON line, or a CSV record of another length, is a malformed row. A file that ends early, a row
longer than `longest`, a broken element of a JSON array and UTF-16 raise InputError. Single bytes
that are not UTF-8 become U+FFFD, which cleaning counts.
"""

from __future__ import annotations

from pathlib import Path

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.arrow_rows import ArrowRows
from dreamer_study.pipeline.sources.files.blocks import Block
from dreamer_study.pipeline.sources.files.json_rows import JsonRows
from dreamer_study.pipeline.sources.files.parquet_rows import ParquetRows
from dreamer_study.pipeline.sources.files.table_rows import CsvRows, WholeText
from dreamer_study.pipeline.sources.files.text_files import COMPRESSIONS, LONGEST, kind_of_file

Reader = ParquetRows | ArrowRows | JsonRows | CsvRows | WholeText

_TABLES = ("parquet", "arrow", "feather")
# Of several formats of a split, the first is taken.
KINDS = (*_TABLES, "jsonl", "ndjson", "json", "csv", "tsv")
# Texts are read where a source names them; in repositories they are licences and notes.
TEXT = "txt"


def is_data(name: str) -> bool:
    """Tell whether a file's name is that of rows; texts are not, as they may be notes."""
    kind = kind_of_file(name)
    packed = name.lower().endswith(COMPRESSIONS)
    return kind in KINDS and not (packed and kind in _TABLES)


def open_rows(
    path: Path,
    *,
    delimiter: str = "",
    escape: str = "",
    field: str = "",
    longest: int = LONGEST,
    rows: int | None = None,
) -> Reader:
    """Open a reader; `longest` is the most bytes of one row.

    The columns of JSON are those of the first `rows` rows, mostly of all. Raises InputError for an
    unknown ending, and for a file that is not there or cannot be read.
    """
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    kind = kind_of_file(path.name)
    if path.suffix.lower() == ".zip" and kind not in (*KINDS, TEXT):
        kind = kind_of_file(WholeText(path, longest).file.name)  # the name of the file inside
    if kind in _TABLES and path.name.lower().endswith(COMPRESSIONS):
        raise InputError(f"{path}: .{kind} is not read out of another file; unpack it")
    if kind == "parquet":
        return ParquetRows(path, longest)
    if kind in _TABLES:
        return ArrowRows(path, longest)
    if kind in ("csv", "tsv"):
        return CsvRows(path, longest, delimiter, escape)
    if kind in KINDS:
        return JsonRows(path, longest, rows=rows, field=field)
    if kind == TEXT:
        return WholeText(path, longest)
    endings = ", ".join(f".{known}" for known in (*KINDS, TEXT))
    raise InputError(
        f"{path}: unknown kind of file; known are {endings}, and these with"
        f" {', '.join(COMPRESSIONS)}"
    )


def check_not_all_malformed(reader: Reader, block: Block) -> None:
    """Raise InputError for rows of CSV that all have another length than the first line."""
    if isinstance(reader, CsvRows) and block.malformed and not len(block.table):
        raise InputError(
            f"{reader.path}: each of its first {len(block.malformed):,} rows has another number of"
            f" fields than its first line, which has {len(reader.names)}. The fields are taken to"
            f" be between {reader.delimiter!r} and texts in double quotes; the source's `delimiter`"
            " and `escape` say otherwise"
        )
