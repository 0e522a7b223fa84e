"""Look at files of data, guess the source that they are in a study, and print the guess."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

from dreamer_study.flows.commands.start.entries import in_line, name_of, path_from
from dreamer_study.flows.commands.tables import console
from dreamer_study.flows.estimates.benchmark_sizes import BYTES_PER_TOKEN
from dreamer_study.flows.progress.reports import printable
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.conversations import has_several_questions, turns_of
from dreamer_study.pipeline.sources.columns.guess import guess_columns
from dreamer_study.pipeline.sources.columns.names import named_columns
from dreamer_study.pipeline.sources.columns.sql import bind, evaluate
from dreamer_study.pipeline.sources.files.blocks import Block
from dreamer_study.pipeline.sources.files.json_rows import JsonRows
from dreamer_study.pipeline.sources.files.json_values import OBJECT
from dreamer_study.pipeline.sources.files.readers import (
    Reader,
    check_not_all_malformed,
    open_rows,
)
from dreamer_study.pipeline.sources.files.text_files import kind_of_file
from dreamer_study.reports.text.numbers import counted

SHOWN_ROWS = 3
SHOWN_CHARACTERS = 90  # of a text
TURNS = re.compile(r"(?:asked|said)\((.+)\)")  # a guess that takes a question out of turns


def files_with_equal_columns(files: Sequence[Path]) -> list[list[Path]]:
    """Group files by their columns: each group is one source."""
    by_columns: dict[tuple[str, ...], list[Path]] = {}
    for file in files:
        by_columns.setdefault(tuple(open_rows(file).schema.names), []).append(file)
    return list(by_columns.values())


def look(files: Sequence[Path], folder: Path, mark: str) -> tuple[dict[str, Any], float]:
    """Look at files with the same columns.

    Returns the entry of their source, and an estimate of their tokens. `mark` makes the name of the
    source differ from those of other files.
    """
    path = files[0]
    reader = open_rows(path)
    columns = reader.schema.names
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise InputError(f"{path}: {columns.count(twice[0])} columns are named {twice[0]!r}")
    guessed, block = _guess(path, reader)
    bound = [bind(text, block.table.schema) for text in guessed.values()]
    texts = [[str(text or "").strip() for text in row.values()] for row in _rows(bound, block)]
    for place, kind in enumerate(guessed):
        if kind != "answer" and not any(row[place] for row in texts):
            raise InputError(
                f"{path}: the guess {in_line(guessed)} gives no {kind} in the first"
                f" {counted(len(texts), 'row')}; write the source into a study by hand"
            )
    rows = sum(open_rows(file).count() for file in files)
    characters = sum(len(text) for row in texts for text in row)
    tokens = rows / len(texts) * characters / BYTES_PER_TOKEN

    names = str(path)
    if len(files) > 1:
        names += f" and {len(files) - 1} more"
    held = counted(round(tokens), "token")
    console.print(f"{names}: {counted(rows, 'row')}, about {held}")
    console.print(f"  guessed from the columns {', '.join(columns)}: {in_line(guessed)}")
    numbers = block.rows.to_pylist()
    for number, row in zip(numbers[:SHOWN_ROWS], texts, strict=False):
        for kind, text in zip(guessed, row, strict=True):
            console.print(f"  {number} {kind:<8} {_on_one_line(text)}")
    _print_several_turns(guessed, block)
    for line in _losses(guessed, texts, block):
        console.print(f"  {line}")
    source = {
        "name": name_of(path.name.partition(".")[0]) + mark,
        "files": [escape(path_from(file, folder)) for file in files],
        **guessed,
    }
    return source, tokens


def _guess(path: Path, reader: Reader) -> tuple[dict[str, str], Block]:
    """Guess the columns of a file; returns them, and its first rows of these columns."""
    block = _first_block(reader, reader.schema)
    hint = reader.hint if isinstance(reader, JsonRows) else ""
    if hint and kind_of_file(path.name) == "json":
        raise InputError(f"{path}: {hint}")
    try:
        guessed = guess_columns(block.table) if block else {}
    except InputError as error:
        raise InputError(f"{path}: {hint or error}") from None
    if hint and "response" not in guessed:
        raise InputError(f"{path}: {hint}")
    if not guessed:
        raise InputError(
            f"{path}: no rows, or no column of text; its columns are"
            f" {', '.join(reader.schema.names)}"
        )
    named = named_columns(guessed.values(), reader.schema)
    block = _first_block(open_rows(path), named)
    assert block is not None
    return guessed, block


def _first_block(reader: Reader, columns: pa.Schema) -> Block | None:
    """Read the first rows that are whole; None without any.

    Raises InputError for a table of which every first row is malformed.
    """
    for block in reader.blocks(columns):
        check_not_all_malformed(reader, block)
        if len(block.table):
            return block
    return None


def _rows(bound: Sequence[str], block: Block) -> list[dict[str, Any]]:
    return evaluate(bound, block.table).to_pylist()


def _on_one_line(text: str) -> str:
    """Shorten a text for a terminal."""
    return printable(" ".join(text.split())[:SHOWN_CHARACTERS]) or "(empty)"


def _losses(guessed: Mapping[str, str], texts: list[list[str]], block: Block) -> list[str]:
    """Say which of the first rows are left out, and why."""
    needed = [place for place, kind in enumerate(guessed) if kind != "answer"]
    empty = [
        number
        for number, row in zip(block.rows.to_pylist(), texts, strict=True)
        if not all(row[place] for place in needed)
    ]
    left_out = {
        "an object or list where a text is wanted": [row for row, _ in block.not_text],
        "a row that is malformed": [row for row, _ in block.malformed],
        "no text where one is wanted": empty,
    }
    read = len(texts) + len(block.not_text) + len(block.malformed)
    lines = [
        f"{what}: {len(rows):,} of the first {read:,} rows (such as {min(rows)}), left out"
        for what, rows in left_out.items()
        if rows
    ]
    objects = sum(OBJECT in text for row in texts for text in row)
    if objects:
        lines.append(f"{objects:,} texts hold a picture or another part that is no text: left out")
    return lines


def _print_several_turns(guessed: Mapping[str, str], block: Block) -> None:
    """Say how many rows have several turns, and print the pair that is made of the first one."""
    column = TURNS.fullmatch(guessed.get("question", ""))
    if column is None:
        return
    turns = _rows([f"to_json({column[1]}) ->> '$'"], block)
    conversations = [turns_of(str(row["0"] or "")) for row in turns]
    several = [place for place, row in enumerate(conversations) if has_several_questions(row)]
    if not several:
        return
    first = several[0]
    console.print(
        f"  several turns: {len(several):,} of the first {len(conversations):,} rows; the last"
        " response is learnt, and the question is all before it, as in row"
        f" {block.rows[first].as_py()}:"
    )
    bound = [bind(text, block.table.schema) for text in guessed.values()]
    pair = evaluate(bound, block.table.slice(first, 1)).to_pylist()[0]
    for kind, text in zip(guessed, pair.values(), strict=True):
        name = kind
        for turn in str(text or "").split("\n\n"):
            console.print(f"    {name:<8} {_on_one_line(turn)}")
            name = ""
