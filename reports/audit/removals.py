"""Read documents that curation dropped, beside what caused that.

The words in which the two differ are found here too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa

from dreamer_study.sql.definitions import FOLDER

# Characters of a text: longer ones are cut off, as the time of aligning grows with their square.
COMPARED = 6_000
# What the query reads, and the columns of what a study does not have yet.
VIEWS = {
    "dropped": "id source reason because question response answer filename",
    "kept": "id question response answer",
    "causes": "id question response",
    "near": "id because similarity",
    "matches": "id source item grade coverage",
    "items": "id question answer",
}
_TYPES = {"similarity": pa.float64(), "coverage": pa.float64()}  # all others are texts

Piece = tuple[str, bool]  # a stretch of a text, and whether it differs


def read_removals(
    files: Mapping[str, Sequence[Path]], *, sample: int, seed: int, each: bool, **wanted: Any
) -> pd.DataFrame:
    """Read at most `sample` documents that curation dropped and that fit, in an order drawn by
    `seed`.

    `files` are the Parquet files of each of the `VIEWS`; `wanted` are stage, source, reason, grade
    and id, None for any. With `each` one document of each reason is read. With a grade of
    decontamination also documents that were kept in spite of a finding of this grade. Returns the
    columns stage, id, source, reason, because, grade, score
    (similarity or coverage), question, response, answer, cause_question and cause_response.
    """
    with duckdb.connect() as connection:
        for name, columns in VIEWS.items():
            paths = [str(path) for path in files.get(name, ())]
            if paths:
                rows = connection.read_parquet(paths, filename=True)
            else:
                # A stage that is switched off, or has found nothing, has written no file.
                types = {name: _TYPES.get(name, pa.string()) for name in columns.split()}
                rows = connection.from_arrow(pa.schema(types).empty_table())
            rows.create_view(name)
        query = (FOLDER / "queries" / "dropped.sql").read_text()
        parameters = {**wanted, "sample": sample, "seed": seed, "each": each}
        return connection.execute(query, parameters).df()


def differences(first: str, second: str) -> tuple[list[Piece], list[Piece]]:
    """Split two texts by whole words into stretches that are equal and stretches that differ."""
    first_words = _words(first)
    second_words = _words(second)
    matcher = SequenceMatcher(
        None,
        [word.strip() for word in first_words],
        [word.strip() for word in second_words],
        autojunk=False,  # which would ignore frequent words
    )
    first_pieces: list[Piece] = []
    second_pieces: list[Piece] = []
    for operation, i, i_stop, j, j_stop in matcher.get_opcodes():
        differs = operation != "equal"
        if i < i_stop:
            first_pieces.append(("".join(first_words[i:i_stop]), differs))
        if j < j_stop:
            second_pieces.append(("".join(second_words[j:j_stop]), differs))
    for pieces, text in ((first_pieces, first), (second_pieces, second)):
        if len(text) > COMPARED:
            pieces.append((f"… [{len(text) - COMPARED:,} characters more]", False))
    return first_pieces, second_pieces


def _words(text: str) -> list[str]:
    """Split a text into words with the blanks behind them; leading blanks are one too."""
    return re.findall(r"\S+\s*|^\s+", text[:COMPARED])
