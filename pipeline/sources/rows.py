"""Convert rows of one file into documents: filters, columns, elements of lists, ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.errors import InputError, placing
from dreamer_study.pipeline.sources.columns.names import named_columns
from dreamer_study.pipeline.sources.columns.sql import (
    bind,
    check_turns,
    evaluate,
    quoted,
    takes_elements,
)
from dreamer_study.pipeline.sources.files.blocks import Block
from dreamer_study.pipeline.sources.files.json_rows import JsonRows
from dreamer_study.pipeline.sources.files.json_values import OBJECT
from dreamer_study.pipeline.sources.files.readers import Reader
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.storage.documents import DocumentWriter

MALFORMED = "malformed row"
NOT_TEXT = "malformed row: not text"
NO_QUESTION = "empty question"
NO_RESPONSE = "empty response"
NONE_CORRECT = "no correct generation"
FILTERED = "filtered by "
MOST_SHOWN = 30  # columns in a message
_PLACE = "place in the block"  # no column of data


class RowConverter:
    """The expressions of a source, bound to the columns of one file."""

    def __init__(self, source: Source, reader: Reader) -> None:
        """Bind the expressions.

        Raises InputError, naming the file's columns, for an expression that does not fit the file.
        """
        self.source = source
        self.path = reader.path
        self.responses = source.responses or (source.text or source.response,)
        expressions = [
            source.question,
            source.answer,
            *source.where,
            *source.keep_if,
            *self.responses,
        ]
        self.expressions = " ".join(expressions)
        try:
            self.columns = named_columns(expressions, reader.schema)
            for text in self.responses:
                check_turns(text, self.columns)
            question = bind(source.question or "''", self.columns)
            answer = bind(source.answer or "''", self.columns)
            responses = [bind(text, self.columns) for text in self.responses]
            conditions = [f"({bind(text, self.columns)})::bool" for text in source.where]
            self.flags = [f"({bind(text, self.columns)})::bool" for text in source.keep_if]
        except InputError as error:
            raise InputError(f"source {source.name!r}: {unfit(reader, error)}") from None
        self.objects = 0  # documents with a thing that is no text, such as a picture, left out
        # A list whose elements are the responses is taken apart after the filters.
        self.elements = responses.pop() if takes_elements(self.responses[0]) else None
        self.plain = [question, answer, *responses, *conditions]

    def check(self, table: pa.Table) -> None:
        """Evaluate the expressions over rows and keep nothing.

        Raises InputError as `write` does.
        """
        self._evaluate(self.plain, table)
        if self.elements:
            self._evaluate([self.elements, *self.flags], table)

    def write(self, block: Block, first_row: int, writer: DocumentWriter) -> None:
        """Write the documents that a block of rows gives.

        `first_row` is the number of the first row of the file. Raises InputError where a value
        cannot be cast as an expression says.
        """
        self._drop_malformed(block, first_row, writer)
        if not len(block.table):
            return
        rows = pc.add(block.rows, first_row)
        question, answer, *others = self._evaluate(self.plain, block.table).columns
        first_condition = len(others) - len(self.source.where)
        responses = others[:first_condition]
        conditions = others[first_condition:]
        question = _cut(question, self.source.remove_question)
        # A list of responses is not taken apart yet, so a filtered row shows none.
        shown = _empty(rows) if self.elements else _cut(responses[0])
        keep = self._filter(rows, question, shown, conditions, writer)
        rows = rows.filter(keep)
        question = question.filter(keep)
        answer = _cut(answer).filter(keep)
        if self.elements:
            table = block.table.filter(keep)
            parents, numbers, response = self._elements(table, rows, question, writer)
            rows = rows.take(parents)
            question = question.take(parents)
            answer = answer.take(parents)
            self._write_documents(rows, question, answer, response, numbers, writer)
            return
        for number, response in enumerate(responses):
            position = number if len(responses) > 1 else None
            text = response.filter(keep)
            self._write_documents(rows, question, answer, text, position, writer)

    def _drop_malformed(self, block: Block, first_row: int, writer: DocumentWriter) -> None:
        for reason, rows in ((MALFORMED, block.malformed), (NOT_TEXT, block.not_text)):
            if rows:
                numbers = pa.array([first_row + row for row, _ in rows], pa.int64())
                texts = pa.array([text for _, text in rows], pa.string())
                dropped = self._documents(numbers, _empty(texts), texts, _empty(texts))
                writer.drop(dropped, reason)

    def _filter(
        self,
        rows: pa.Array,
        question: pa.Array,
        shown: pa.Array,
        conditions: Sequence[Any],
        writer: DocumentWriter,
    ) -> pa.Array:
        """Drop each row with its first condition that is not true; returns which rows are kept."""
        keep = pa.array(np.ones(len(rows), bool))
        for condition, text in zip(conditions, self.source.where, strict=True):
            holds = pc.fill_null(condition, False)
            out = pc.and_not(keep, holds)
            if pc.any(out).as_py():
                documents = self._documents(rows, question, shown, _empty(rows))
                writer.drop(documents.filter(out), FILTERED + text)
            keep = pc.and_(keep, holds)
        return keep

    def _write_documents(
        self,
        rows: pa.Array,
        question: pa.Array,
        answer: pa.Array,
        response: Any,
        number: Any,
        writer: DocumentWriter,
    ) -> None:
        """Write documents whose texts are whole, and drop those without a question or response."""
        response = _cut(response, self.source.remove_response)
        holds_object = pc.or_(
            pc.match_substring(question, OBJECT), pc.match_substring(response, OBJECT)
        )
        if pc.any(holds_object).as_py():
            self.objects += pc.sum(holds_object).as_py()
            question = _cut(question, [f"\\n?{OBJECT}"])
            response = _cut(response, [f"\\n?{OBJECT}"])
        documents = self._documents(rows, question, response, answer, number)
        # A text of its own has no question, and needs none.
        unasked = pc.and_(pc.equal(documents["question"], ""), bool(self.source.question))
        unanswered = pc.and_not(pc.equal(documents["response"], ""), unasked)
        writer.drop(documents.filter(unasked), NO_QUESTION)
        writer.drop(documents.filter(unanswered), NO_RESPONSE)
        writer.keep(documents.filter(pc.invert(pc.or_(unasked, unanswered))))

    def _elements(
        self, table: pa.Table, rows: pa.Array, question: pa.Array, writer: DocumentWriter
    ) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Select the list elements that the flags keep.

        Returns their rows in the table, numbers in the list, and texts; drops the rows of which no
        element is kept. Of the lists ["a", "b"] and ["c"], parents are [0, 0, 1], numbers [0, 1,
        0].
        """
        places = pa.array(np.arange(len(table)))
        expressions = [quoted(_PLACE), self.elements or "", *self.flags]
        elements = self._evaluate(expressions, table.append_column(_PLACE, places))
        # The lists of a row are taken apart side by side: a row has as many elements as its longest
        # list.
        parents = elements["0"].to_numpy()
        numbers = np.arange(len(parents)) - np.searchsorted(parents, parents)
        texts = elements["1"]
        has_text = pc.is_valid(texts).to_numpy()
        keep = np.ones(len(parents), bool)
        for flag in elements.columns[2:]:
            keep &= pc.fill_null(flag, False).to_numpy()
        without_response = np.isin(places, parents[has_text], invert=True)
        none_kept = np.isin(places, parents[keep], invert=True) & ~without_response
        for reason, out in ((NO_RESPONSE, without_response), (NONE_CORRECT, none_kept)):
            mask = pa.array(out)
            asked = question.filter(mask)
            documents = self._documents(rows.filter(mask), asked, _empty(asked), _empty(asked))
            writer.drop(documents, reason)
        keep &= ~without_response[parents]
        return pa.array(parents[keep]), pa.array(numbers[keep]), texts.filter(pa.array(keep))

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


def unfit(reader: Reader, error: InputError) -> str:
    """Say that expressions do not fit a file, and what the file has."""
    hint = f"; {reader.hint}" if isinstance(reader, JsonRows) and reader.hint else ""
    names = reader.schema.names
    shown = ", ".join(names[:MOST_SHOWN])
    if len(names) > MOST_SHOWN:
        shown += f" and {len(names) - MOST_SHOWN} more"
    return f"{reader.path}: {error}; its columns are {shown}{hint}"


def _empty(like: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.array([""] * len(like), pa.string())


def _cut(column: pa.Array | pa.ChunkedArray, patterns: Sequence[str] = ()) -> pa.Array:
    """Remove the matches of the patterns, and white space around the texts.

    What a first group `kept` matches stays.
    """
    column = pc.utf8_trim_whitespace(pc.fill_null(column.cast(pa.string()), ""))
    for pattern in patterns:
        kept = "\\1" if "(?P<kept>" in pattern else ""
        replaced = pc.replace_substring_regex(column, pattern=pattern, replacement=kept)
        column = pc.utf8_trim_whitespace(replaced)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
