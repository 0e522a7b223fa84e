"""Convert rows of one file into documents: filters, columns, the elements of a list of responses,
ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.errors import InputError, placing
from dreamer_study.pipeline.sources.columns.sql import (
    bind,
    check_turns,
    evaluate,
    named_columns,
    quoted,
    takes_elements,
)
from dreamer_study.pipeline.sources.files.blocks import Block
from dreamer_study.pipeline.sources.files.readers import Reader
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.storage.documents import DocumentWriter

MALFORMED = "malformed row"
NO_QUESTION = "empty question"
NO_RESPONSE = "empty response"
NONE_CORRECT = "no correct generation"
FILTERED = "filtered by "
_PLACE = "place in the block"  # no column of data


class RowConverter:
    """The expressions of a source, bound to the columns of one file."""

    def __init__(self, source: Source, reader: Reader) -> None:
        """Bind the expressions. Raises InputError, naming the file's columns, for one that does not
        fit the file."""
        self.source, self.path = source, reader.path
        given = [source.question, source.answer, *source.where, *source.keep_if]
        self.responses = source.responses or (source.text or source.response,)
        self.columns = named_columns([*given, *self.responses], reader.schema.names)
        try:
            for text in self.responses:
                check_turns(text, reader.schema)
            texts = (source.question or "''", source.answer or "''", *self.responses)
            question, answer, *responses = (bind(text, reader.schema) for text in texts)
            conditions = [f"({bind(text, reader.schema)})::bool" for text in source.where]
            self.flags = [f"({bind(text, reader.schema)})::bool" for text in source.keep_if]
        except InputError as error:
            raise InputError(
                f"source {source.name!r}: {self.path}: {error}; its columns are"
                f" {', '.join(reader.schema.names)}"
            ) from None
        # A list whose elements are the responses is taken apart after the filters.
        self.elements = responses.pop() if takes_elements(self.responses[0]) else None
        self.plain = [question, answer, *responses, *conditions]

    def check(self, table: pa.Table) -> None:
        """Evaluate the expressions over rows and keep nothing. Raises InputError as `write`
        does."""
        self._evaluate(self.plain, table)
        if self.elements:
            self._evaluate([self.elements, *self.flags], table)

    def write(self, block: Block, first_row: int, writer: DocumentWriter) -> None:
        """Write the documents that a block of rows gives; `first_row` is the number of the first
        row of the file.

        Raises InputError where a value cannot be cast as an expression says.
        """
        if block.malformed:
            numbers = pa.array([first_row + row for row, _ in block.malformed], pa.int64())
            texts = pa.array([text for _, text in block.malformed], pa.string())
            writer.drop(self._documents(numbers, _empty(texts), texts, _empty(texts)), MALFORMED)
        if not len(block.table):
            return
        rows, found = pc.add(block.rows, first_row), self._evaluate(self.plain, block.table)
        question, answer, *others = found.columns
        first = len(others) - len(self.source.where)
        responses, conditions = others[:first], others[first:]
        question = _cut(question, self.source.remove_question)
        keep = pa.array(np.ones(len(rows), bool))
        for condition, text in zip(conditions, self.source.where, strict=True):
            right = pc.fill_null(condition, False)
            out = pc.and_not(keep, right)
            if pc.any(out).as_py():
                shown = _empty(rows) if self.elements else _cut(responses[0])
                documents = self._documents(rows, question, shown, _empty(rows))
                writer.drop(documents.filter(out), FILTERED + text)
            keep = pc.and_(keep, right)
        rows, question, answer = (column.filter(keep) for column in (rows, question, _cut(answer)))
        generations: Iterable[tuple[Any, Any, Any]]
        if self.elements:
            generations = [self._elements(block.table.filter(keep), rows, question, writer)]
        else:
            numbers = range(len(responses)) if len(responses) > 1 else [None]
            generations = [
                (None, number, text.filter(keep))
                for number, text in zip(numbers, responses, strict=True)
            ]
        for parents, number, response in generations:
            columns = (rows, question, answer)
            row, asked, answered = (
                columns if parents is None else (column.take(parents) for column in columns)
            )
            documents = self._documents(
                row, asked, _cut(response, self.source.remove_response), answered, number
            )
            unasked = pc.and_(pc.equal(documents["question"], ""), bool(self.source.question))
            unanswered = pc.and_not(pc.equal(documents["response"], ""), unasked)
            writer.drop(documents.filter(unasked), NO_QUESTION)
            writer.drop(documents.filter(unanswered), NO_RESPONSE)
            writer.keep(documents.filter(pc.invert(pc.or_(unasked, unanswered))))

    def _elements(
        self, table: pa.Table, rows: pa.Array, question: pa.Array, writer: DocumentWriter
    ) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Select the list elements that the flags keep: rows in the table, numbers in the list,
        texts.

        Drops the rows of which no element is kept.
        """
        place = pa.array(np.arange(len(table)))
        elements = [quoted(_PLACE), self.elements or "", *self.flags]
        found = self._evaluate(elements, table.append_column(_PLACE, place))
        # The lists of a row are taken apart side by side: a row has as many elements as its longest
        # list.
        parents = found["0"].to_numpy()
        numbers = np.arange(len(parents)) - np.searchsorted(parents, parents)
        there, keep = pc.is_valid(found["1"]).to_numpy(), np.ones(len(parents), bool)
        for flag in found.columns[2:]:
            keep &= pc.fill_null(flag, False).to_numpy()
        empty = np.isin(place, parents[there], invert=True)
        judged = np.isin(place, parents[keep], invert=True) & ~empty
        for reason, out in ((NO_RESPONSE, empty), (NONE_CORRECT, judged)):
            asked = question.filter(pa.array(out))
            writer.drop(
                self._documents(rows.filter(pa.array(out)), asked, _empty(asked), _empty(asked)),
                reason,
            )
        keep &= ~empty[parents]
        return pa.array(parents[keep]), pa.array(numbers[keep]), found["1"].filter(pa.array(keep))

    def _evaluate(self, bound: Sequence[str], table: pa.Table) -> pa.Table:
        with placing(f"source {self.source.name!r}: {self.path}"):
            return evaluate(bound, table)

    def _documents(
        self,
        rows: pa.Array,
        question: pa.Array,
        response: pa.Array,
        answer: pa.Array,
        number: Any = None,
    ) -> pa.Table:
        ids = pc.binary_join_element_wise(f"{self.source.prefix}/", pc.cast(rows, pa.string()), "")
        if number is not None:
            ids = pc.binary_join_element_wise(ids, pc.cast(number, pa.string()), ".")
        names = pa.array([self.source.name] * len(rows), pa.string())
        values = {
            "id": ids,
            "source": names,
            "row": rows,
            "question": question,
            "response": response,
            "answer": answer,
        }
        return pa.table(values)


def _empty(like: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.array([""] * len(like), pa.string())


def _cut(column: pa.Array | pa.ChunkedArray, patterns: Sequence[str] = ()) -> pa.Array:
    """Remove the matches of the patterns, but for a first group `kept`, and white space around the
    texts."""
    column = pc.utf8_trim_whitespace(pc.fill_null(column.cast(pa.string()), ""))
    for pattern in patterns:
        kept = "\\1" if "(?P<kept>" in pattern else ""
        column = pc.utf8_trim_whitespace(
            pc.replace_substring_regex(column, pattern=pattern, replacement=kept)
        )
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
