"""Read rows into documents: evaluate a source's column expressions over its files, block by block.

This first stage does not judge quality. It drops rows that are no documents (malformed, empty question or response) and
rows that the source's own flags and filters exclude.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError
from pipeline.progress import Progress, quiet
from pipeline.sources import column_expressions
from pipeline.sources.column_expressions import Expression, MissingColumn
from pipeline.sources.file_readers import ParquetRows, RecordRows, open_rows
from pipeline.sources.source import Source
from pipeline.storage.documents import DocumentWriter, sum_counts
from pipeline.storage.files import sync, write_text_atomically
from pipeline.storage.resumable import resumable_parts

MALFORMED = "malformed row"
NO_QUESTION = "empty question"
NO_RESPONSE = "empty response"
NONE_CORRECT = "no correct generation"
FILTERED = "filtered by "


def read_source(
    source: Source,
    files: Sequence[Path],
    output: Path,
    *,
    limit: int | None = None,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Run the stage: rows of a source's files become `documents/` and `dropped/` under `output`.

    A document's id is `<name>/<row>`, or `<name>@<revision>/<row>` for a pinned revision; `.<number>` follows where a
    row gives several documents. `row` counts from 0 over the files in their order, malformed rows included. White space
    around the three texts is removed. A malformed row is dropped with its text as the response.

    Files that have been read survive an interruption. `limit` (or the source's) reads that many rows: of Parquet files
    evenly from all row groups, because some sets are sorted by topic; of other files the first. Raises InputError for a
    file that is cut off, missing columns, and a source without a row.
    """
    limit = limit if limit is not None else source.limit
    sizes = [max(path.stat().st_size, 1) for path in files]
    quotas = _quotas(files, limit)
    counts = []
    first_row = seen = 0
    with resumable_parts(output, {"source": repr(source), "limit": limit}, files) as folder:
        for number, path in enumerate(files):
            done, part = sum(sizes[:number]) / sum(sizes), sizes[number] / sum(sizes)

            def report(of_file: float, rows: int, done: float = done, part: float = part, before: int = seen) -> None:
                progress(done + of_file * part, f"{source.name}: {before + rows:,} rows")

            report(0.0, 0)
            note = folder / f"read-{number}.json"
            if not note.exists():
                quota = quotas[number] if quotas else None if limit is None else limit - seen
                found = _read_file(source, path, output, number, first_row, quota, report)
                write_text_atomically(note, json.dumps(found))
            read = json.loads(note.read_text())
            counts.append(read["counts"])
            first_row, seen = first_row + read["rows"], seen + read["seen"]
    if not seen:
        raise InputError(f"source {source.name!r} has no rows in {', '.join(map(str, files)) or 'no files'}")
    progress(1.0, f"{source.name}: {seen:,} rows")
    return {
        "counts": sum_counts(counts),
        "rows": seen,
        "files": len(files),
        "revision": source.revision,
        "licence": source.licence,
    }


def _read_file(
    source: Source,
    path: Path,
    output: Path,
    number: int,
    first_row: int,
    quota: int | None,
    report: Callable[[float, int], None],
) -> dict[str, Any]:
    """Write the documents of one file, as shards whose names begin with the file's number.

    Returns the counts, the rows read ("seen") and the rows of the file ("rows").
    """
    for kind in ("documents", "dropped"):
        for left in (output / kind).glob(f"{number:05d}-*"):
            left.unlink()  # of a killed attempt
    reader = open_rows(path)
    seen = end = 0
    with DocumentWriter(output, prefix=f"{number:05d}-") as writer:
        if reader.columns and quota != 0:
            binding = _bind(source, reader)
            for block in reader.blocks(binding.paths, quota):
                if block.malformed:
                    writer.drop(_malformed(source, block.malformed, first_row), MALFORMED)
                _write(source, binding, block.table, pc.add(block.rows, first_row), writer)
                end = block.end
                seen += len(block.rows) + len(block.malformed)
                report(block.done, seen)
    for kind in ("documents", "dropped"):
        for written in (output / kind).glob(f"{number:05d}-*"):
            sync(written)
    return {"counts": writer.counts(), "seen": seen, "rows": end if reader.rows is None else reader.rows}


@dataclass(frozen=True)
class _Binding:
    """A source's expressions bound to the columns of one file; `flags` are groups of paths joined by "or"."""

    question: Expression | None
    responses: tuple[Expression, ...]
    answer: Expression | None
    where: tuple[tuple[Expression, tuple[str, ...]], ...]
    flags: tuple[tuple[str, ...], ...]

    @property
    def paths(self) -> list[str]:
        expressions = [self.question, *self.responses, self.answer, *(expression for expression, _ in self.where)]
        found = [path for expression in expressions if expression for path in expression.paths()]
        return list(dict.fromkeys([*found, *(path for group in self.flags for path in group)]))

    @property
    def star(self) -> str | None:
        """The path of the list whose elements are the responses, or None."""
        return next((path for path in self.responses[0].paths() if "[*]" in path), None)


def _bind(source: Source, reader: ParquetRows | RecordRows) -> _Binding:
    def bound(text: str | tuple[str, ...]) -> Expression | None:
        return column_expressions.parse(text).bind(reader.has) if text else None

    try:
        flags = []
        for text in source.keep_if:
            paths = column_expressions.parse(text).paths()
            flags.append(tuple(path for path in paths if reader.has(path)))
            if not flags[-1]:
                raise MissingColumn(" | ".join(paths))
        return _Binding(
            bound(source.question),
            tuple(
                column_expressions.parse(r).bind(reader.has)
                for r in source.responses or (source.text or source.response,)
            ),
            bound(source.answer),
            tuple(
                (
                    column_expressions.parse(path).bind(reader.has),
                    (wanted,) if isinstance(wanted, str) else tuple(wanted),
                )
                for path, wanted in source.where.items()
            ),
            tuple(flags),
        )
    except MissingColumn as missing:
        texts = [source.question, source.response, source.text, source.answer]
        texts += [*source.responses, *source.where, *source.keep_if]
        wanted = dict.fromkeys(path for text in texts if text for path in column_expressions.parse(text).paths())
        raise InputError(
            f"source {source.name!r}: {reader.path} has nothing at {missing.wanted}; wanted are {', '.join(wanted)}; "
            f"its columns are {', '.join(reader.columns)}"
        ) from missing


def _write(source: Source, binding: _Binding, table: pa.Table, rows: pa.Array, writer: DocumentWriter) -> None:
    """Write the documents of one block."""
    for expression, wanted in binding.where:
        keep = _matches(expression.evaluate(table), wanted)
        _drop_rows(source, binding, table.filter(pc.invert(keep)), rows.filter(pc.invert(keep)), expression, writer)
        table, rows = table.filter(keep), rows.filter(keep)
    if not len(table):
        return
    question = _cut(binding.question.evaluate(table), source.remove_question) if binding.question else _nothing(table)
    answer = _trim(binding.answer.evaluate(table)) if binding.answer else _nothing(table)
    if binding.star:
        parts: Iterator = iter([_generations(source, binding, table, rows, question, writer)])
    elif len(binding.responses) > 1:
        parts = ((None, number, response.evaluate(table)) for number, response in enumerate(binding.responses))
    else:
        parts = iter([(None, None, binding.responses[0].evaluate(table))])
    for parent, number, response in parts:
        taken = (
            [rows, question, answer] if parent is None else [column.take(parent) for column in (rows, question, answer)]
        )
        response = _cut(response, source.remove_response)
        documents = _documents(source, taken[0], taken[1], response, taken[2], number)
        unasked = pc.and_(pc.equal(documents["question"], ""), binding.question is not None)
        unanswered = pc.and_not(pc.equal(documents["response"], ""), unasked)
        writer.drop(documents.filter(unasked), NO_QUESTION)
        writer.drop(documents.filter(unanswered), NO_RESPONSE)
        writer.keep(documents.filter(pc.invert(pc.or_(unasked, unanswered))))


def _generations(
    source: Source, binding: _Binding, table: pa.Table, rows: pa.Array, question: pa.Array, writer: DocumentWriter
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Select the list elements that the flags keep: their rows in the table, their numbers in the list, their texts.

    Drops the rows of which no element is kept.
    """
    lists = table[binding.star].to_pylist()
    groups = [[table[path].to_pylist() for path in group] for group in binding.flags]
    kept: list[tuple[int, int, str | None]] = []
    empty: list[int] = []
    wrong: list[int] = []
    for row, texts in enumerate(lists):
        found = [
            (row, number, text)
            for number, text in enumerate(texts or ())
            if all(any(_true(flags[row], number) for flags in group) for group in groups)
        ]
        kept += found
        if not found:
            (wrong if texts else empty).append(row)
    for which, reason in ((empty, NO_RESPONSE), (wrong, NONE_CORRECT)):
        if which:
            where = pa.array(which, pa.int64())
            nothing = _nothing(which)
            writer.drop(_documents(source, rows.take(where), question.take(where), nothing, nothing), reason)
    parents, numbers, texts = zip(*kept, strict=True) if kept else ((), (), ())
    return pa.array(parents, pa.int64()), pa.array(numbers, pa.int64()), pa.array(texts, pa.string())


def _drop_rows(
    source: Source, binding: _Binding, table: pa.Table, rows: pa.Array, by: Expression, writer: DocumentWriter
) -> None:
    if len(table):
        question = _trim(binding.question.evaluate(table)) if binding.question else _nothing(table)
        response = _nothing(table) if binding.star else _trim(binding.responses[0].evaluate(table))
        writer.drop(_documents(source, rows, question, response, _nothing(table)), FILTERED + by.paths()[0])


def _malformed(source: Source, rows: Sequence[tuple[int, str]], first_row: int) -> pa.Table:
    numbers = pa.array([first_row + row for row, _ in rows], pa.int64())
    texts = pa.array([text for _, text in rows], pa.string())
    return _documents(source, numbers, _nothing(rows), texts, _nothing(rows))


def _documents(
    source: Source,
    rows: pa.Array,
    question: pa.Array,
    response: pa.Array,
    answer: pa.Array,
    number: int | pa.Array | None = None,
) -> pa.Table:
    ids = pc.binary_join_element_wise(f"{source.prefix}/", pc.cast(rows, pa.string()), "")
    if number is not None:
        ids = pc.binary_join_element_wise(ids, pc.cast(number, pa.string()), ".")
    names = pa.array([source.name], pa.string()).take(pa.array([0] * len(rows), pa.int64()))
    values = {"id": ids, "source": names, "row": rows, "question": question, "response": response, "answer": answer}
    return pa.table(values)


def _quotas(files: Sequence[Path], limit: int | None) -> list[int]:
    """Divide the limit among Parquet files by their rows; empty without a limit, or for files of unknown length."""
    if limit is None or not all(path.suffix == ".parquet" for path in files):
        return []
    rows = [reader.rows for path in files if isinstance(reader := open_rows(path), ParquetRows)]
    total, before, quotas = sum(rows), 0, []
    for count in rows:
        quotas.append(count if limit >= total else (before + count) * limit // total - before * limit // total)
        before += count
    return quotas


def _matches(column: pa.Array, wanted: Sequence[str]) -> pa.Array:
    """Tell which rows have one of the wanted texts; `*` matches anything."""
    keep = pc.is_in(column, pa.array(wanted, pa.string()))
    for value in wanted:
        if "*" in value:
            escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            keep = pc.or_(keep, pc.fill_null(pc.match_like(column, escaped.replace("*", "%")), False))
    return keep.combine_chunks() if isinstance(keep, pa.ChunkedArray) else keep


def _true(flags: Sequence[str | None] | None, number: int) -> bool:
    """Tell whether the flag of one list element is true; the list of flags may be null or too short."""
    return flags is not None and number < len(flags) and flags[number] in ("true", "1")


def _nothing(like: Mapping | Sequence | pa.Table) -> pa.Array:
    return pa.array([""] * len(like), pa.string())


def _trim(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    column = pc.utf8_trim_whitespace(pc.fill_null(column, ""))
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _cut(column: pa.Array | pa.ChunkedArray, patterns: Sequence[str]) -> pa.Array:
    """Remove the matches of the patterns, and white space around the texts."""
    column = _trim(column)
    for pattern in patterns:
        column = _trim(pc.replace_substring_regex(column, pattern=pattern, replacement=""))
    return column
