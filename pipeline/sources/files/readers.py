"""Open the reader of a file by its name: Parquet, JSON lines, JSON, CSV or text.

All but Parquet may be compressed (.gz, .zst). Readers yield blocks of bounded size
(`pipeline/sources/files/blocks.py`), in which numbers and dates of JSON and CSV are texts as they
are written. A broken JSON line, or a CSV record of another length, is a malformed row. A file that
ends early, a row longer than `longest`, a broken element of a JSON array and UTF-16 raise
InputError. Single bytes that are not UTF-8 become U+FFFD, which cleaning counts.
"""

from __future__ import annotations

from pathlib import Path

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.json_rows import JsonRows
from dreamer_study.pipeline.sources.files.parquet_rows import ParquetRows
from dreamer_study.pipeline.sources.files.table_rows import CsvRows, WholeText
from dreamer_study.pipeline.sources.files.text_files import COMPRESSIONS, LONGEST

Reader = ParquetRows | JsonRows | CsvRows | WholeText

_PACKED = ("", *COMPRESSIONS)
_KINDS = ("jsonl", "json", "csv", "tsv")
SUFFIXES = (".parquet", *(f".{kind}{packed}" for kind in _KINDS for packed in _PACKED))
# Texts are read where a source names them; in repositories they are licences and notes.
TEXTS = tuple(f".txt{packed}" for packed in _PACKED)


def open_rows(path: Path, *, delimiter: str = "", longest: int = LONGEST) -> Reader:
    """Open a reader; `longest` is the most bytes of one row.

    Raises InputError for an unknown ending, and for a file that is not there or cannot be read.
    """
    endings = (*SUFFIXES, *TEXTS)
    if not path.name.endswith(endings):
        raise InputError(f"{path}: unknown kind of file; known are {', '.join(endings)}")
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    if path.suffix == ".parquet":
        return ParquetRows(path)
    if path.name.endswith(TEXTS):
        return WholeText(path, longest)
    kinds = path.suffixes[-2:]
    if ".csv" in kinds or ".tsv" in kinds:
        return CsvRows(path, longest, delimiter)
    return JsonRows(path, longest)
