"""Convert rows of one file into documents: filters, columns, the elements of a list of responses, ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError
from pipeline.sources.columns.expressions import Expression, MissingColumn, parse
from pipeline.sources.files.blocks import Block
from pipeline.sources.files.parquet_rows import ParquetRows
from pipeline.sources.files.record_rows import RecordRows
from pipeline.sources.source import Source
from pipeline.storage.documents import DocumentWriter

MALFORMED = "malformed row"
NO_QUESTION = "empty question"
NO_RESPONSE = "empty response"
NONE_CORRECT = "no correct generation"
FILTERED = "filtered by "


class RowConverter:
    """The expressions of a source, bound to the columns of one file; `paths` are the columns that a reader extracts."""

    def __init__(self, source: Source, reader: ParquetRows | RecordRows, writer: DocumentWriter) -> None:
        """Bind the expressions. Raises InputError, with the wanted and the existing columns, where one is missing."""
        self.source, self.writer = source, writer
        try:
            self._bind(reader.has)
        except MissingColumn as missing:
            texts = [source.question, source.response, source.text, source.answer]
            texts += [*source.responses, *source.where, *source.keep_if]
            wanted = dict.fromkeys(path for text in texts if text for path in parse(text).paths())
            raise InputError(
                f"source {source.name!r}: {reader.path} has nothing at {missing.wanted}; wanted are "
                f"{', '.join(wanted)}; its columns are {', '.join(reader.columns)}"
            ) from missing
        bound = [self.question, *self.responses, self.answer, *(expression for expression, _ in self.where)]
        paths = [path for expression in bound if expression for path in expression.paths()]
        self.paths = list(dict.fromkeys([*paths, *(path for group in self.flags for path in group)]))
        # The path of the list whose elements are the responses, or None.
        self.star = next((path for path in self.responses[0].paths() if "[*]" in path), None)

    def _bind(self, has: Callable[[str], bool]) -> None:
        source = self.source
        self.flags: list[list[str]] = []  # groups of paths joined by "or"
        for text in source.keep_if:
            alternatives = parse(text).paths()
            self.flags.append([path for path in alternatives if has(path)])
            if not self.flags[-1]:
                raise MissingColumn(" | ".join(alternatives))
        self.question = parse(source.question).bind(has) if source.question else None
        self.responses = [parse(text).bind(has) for text in source.responses or (source.text or source.response,)]
        self.answer = parse(source.answer).bind(has) if source.answer else None
        self.where = [(parse(column).bind(has), wanted) for column, wanted in source.where.items()]

    def write(self, block: Block, first_row: int) -> None:
        """Write the documents of a block to the writer; `first_row` is the number of the file's first row."""
        if block.malformed:
            numbers = pa.array([first_row + row for row, _ in block.malformed], pa.int64())
            texts = pa.array([text for _, text in block.malformed], pa.string())
            self.writer.drop(self._documents(numbers, _empty(texts), texts, _empty(texts)), MALFORMED)
        table, rows = block.table, pc.add(block.rows, first_row)
        for column, wanted in self.where:
            keep = _matches(column.evaluate(table), wanted)
            self._filter_out(table.filter(pc.invert(keep)), rows.filter(pc.invert(keep)), column)
            table, rows = table.filter(keep), rows.filter(keep)
        if not len(table):
            return
        question, answer = self._text(self.question, table, self.source.remove_question), self._text(self.answer, table)
        for parents, number, response in self._generations(table, rows, question):
            columns = (rows, question, answer)
            row, asked, answered = columns if parents is None else (column.take(parents) for column in columns)
            documents = self._documents(row, asked, _cut(response, self.source.remove_response), answered, number)
            unasked = pc.and_(pc.equal(documents["question"], ""), self.question is not None)
            unanswered = pc.and_not(pc.equal(documents["response"], ""), unasked)
            self.writer.drop(documents.filter(unasked), NO_QUESTION)
            self.writer.drop(documents.filter(unanswered), NO_RESPONSE)
            self.writer.keep(documents.filter(pc.invert(pc.or_(unasked, unanswered))))

    def _generations(self, table: pa.Table, rows: pa.Array, question: pa.Array) -> Iterable[tuple[Any, Any, pa.Array]]:
        """Yield responses with their rows in the table (None: each row once) and their numbers (None: not numbered)."""
        if self.star:
            yield self._elements(table, rows, question)
        elif len(self.responses) > 1:
            yield from ((None, number, response.evaluate(table)) for number, response in enumerate(self.responses))
        else:
            yield None, None, self.responses[0].evaluate(table)

    def _elements(self, table: pa.Table, rows: pa.Array, question: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Select the list elements that the flags keep: rows in the table, numbers in the list, texts.

        Drops the rows of which no element is kept.
        """
        groups = [[table[path].to_pylist() for path in group] for group in self.flags]
        kept: list[tuple[int, int, str | None]] = []
        without: dict[str, list[int]] = {NO_RESPONSE: [], NONE_CORRECT: []}
        for row, texts in enumerate(table[self.star].to_pylist()):
            found = [
                (row, number, text)
                for number, text in enumerate(texts or ())
                if all(any(_true(flags[row], number) for flags in group) for group in groups)
            ]
            kept += found
            if not found:
                without[NONE_CORRECT if texts else NO_RESPONSE].append(row)
        for reason, numbers in without.items():
            if numbers:
                place = pa.array(numbers, pa.int64())
                asked = question.take(place)
                self.writer.drop(self._documents(rows.take(place), asked, _empty(place), _empty(place)), reason)
        parents, numbers, texts = zip(*kept, strict=True) if kept else ((), (), ())
        return pa.array(parents, pa.int64()), pa.array(numbers, pa.int64()), pa.array(texts, pa.string())

    def _filter_out(self, table: pa.Table, rows: pa.Array, column: Expression) -> None:
        if len(table):
            response = _empty(table) if self.star else self._text(self.responses[0], table)
            documents = self._documents(rows, self._text(self.question, table), response, _empty(table))
            self.writer.drop(documents, FILTERED + column.paths()[0])

    def _text(self, expression: Expression | None, table: pa.Table, patterns: Sequence[str] = ()) -> pa.Array:
        return _cut(expression.evaluate(table), patterns) if expression else _empty(table)

    def _documents(
        self, rows: pa.Array, question: pa.Array, response: pa.Array, answer: pa.Array, number: Any = None
    ) -> pa.Table:
        ids = pc.binary_join_element_wise(f"{self.source.prefix}/", pc.cast(rows, pa.string()), "")
        if number is not None:
            ids = pc.binary_join_element_wise(ids, pc.cast(number, pa.string()), ".")
        names = pa.array([self.source.name] * len(rows), pa.string())
        values = {"id": ids, "source": names, "row": rows, "question": question, "response": response, "answer": answer}
        return pa.table(values)


def _matches(column: pa.Array, wanted: str | Sequence[str]) -> pa.Array:
    """Tell which rows have one of the wanted texts; `*` matches anything, and `true` also Python's `True`."""
    wanted = [wanted] if isinstance(wanted, str) else wanted
    keep = pc.is_in(column, pa.array(wanted, pa.string()))
    if flags := {value.lower() for value in wanted} & {"true", "false"}:
        keep = pc.or_(keep, pc.is_in(pc.utf8_lower(column), pa.array(sorted(flags), pa.string())))
    for value in wanted:
        if "*" in value:
            escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            keep = pc.or_(keep, pc.fill_null(pc.match_like(column, escaped.replace("*", "%")), False))
    return _whole(keep)


def _true(flags: Sequence[str | None] | None, number: int) -> bool:
    """Tell whether the flag of one list element is true; the list of flags may be null or too short."""
    return flags is not None and number < len(flags) and (flags[number] or "").lower() in ("true", "1")


def _empty(like: pa.Array | pa.Table) -> pa.Array:
    return pa.array([""] * len(like), pa.string())


def _cut(column: pa.Array | pa.ChunkedArray, patterns: Sequence[str]) -> pa.Array:
    """Remove the matches of the patterns, but for a first group `kept`, and white space around the texts."""
    column = _whole(pc.utf8_trim_whitespace(pc.fill_null(column, "")))
    for pattern in patterns:
        kept = "\\1" if "(?P<kept>" in pattern else ""
        column = pc.utf8_trim_whitespace(pc.replace_substring_regex(column, pattern=pattern, replacement=kept))
    return column


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
