"""Read documents that curation dropped beside what caused that, and find the words in which the two
differ."""

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

# characters of a text: longer ones are cut off, as aligning takes time with their square
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
            nothing = pa.table({column: pa.array([], pa.string()) for column in columns.split()})
            rows = (
                connection.read_parquet(paths, filename=True)
                if paths
                else connection.from_arrow(nothing)
            )
            rows.create_view(name)
        query = (FOLDER / "queries" / "dropped.sql").read_text()
        return connection.execute(
            query, {**wanted, "sample": sample, "seed": seed, "each": each}
        ).df()


def differences(first: str, second: str) -> tuple[list[Piece], list[Piece]]:
    """Split two texts into stretches that both have and stretches in which they differ, by whole
    words."""
    words = [re.findall(r"\S+\s*|^\s+", text[:COMPARED]) for text in (first, second)]
    compared = [[word.strip() for word in side] for side in words]
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    for what, *places in SequenceMatcher(None, *compared, autojunk=False).get_opcodes():
        for side, own, (start, stop) in zip(sides, words, (places[:2], places[2:]), strict=True):
            if start < stop:
                side.append(("".join(own[start:stop]), what != "equal"))
    for side, text in zip(sides, (first, second), strict=True):
        if len(text) > COMPARED:
            side.append((f"… [{len(text) - COMPARED:,} characters more]", False))
    return sides
