"""Read documents that curation dropped beside what caused that, and find the words in which the two differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

import duckdb
import pandas as pd
import pyarrow as pa

from pipeline.decontaminate.stage import MATCHES
from pipeline.storage.documents import DROPPED, SCHEMA
from pipeline.storage.store import Output
from sql.definitions import FOLDER

COMPARED = 6_000  # characters of a text: longer ones are cut off, as aligning takes time with their square
_TEXTS = (("id", pa.string()), ("question", pa.string()), ("answer", pa.string()))
_NEAR = (("id", pa.string()), ("because", pa.string()), ("similarity", pa.float64()))
# What the query reads: the stage (every one for None), its files, their columns.
_FILES = {
    "dropped": (None, "dropped/*.parquet", DROPPED.append(pa.field("filename", pa.string()))),
    "kept": ("decontaminate", "documents/*.parquet", SCHEMA),
    "causes": ("clean", "documents/*.parquet", SCHEMA),
    "near": ("deduplicate", "near_duplicates.parquet", pa.schema(_NEAR)),
    "matches": ("decontaminate", "matches.parquet", MATCHES),
    "items": ("items", "items.parquet", pa.schema(_TEXTS)),
}

Piece = tuple[str, bool]  # a stretch of a text, and whether it differs


def read_removals(
    outputs: Sequence[Output],
    *,
    sample: int,
    seed: int = 0,
    each: bool = False,
    stage: str | None = None,
    source: str | None = None,
    reason: str | None = None,
    grade: str | None = None,
    id: str | None = None,
) -> pd.DataFrame:
    """Read at most `sample` documents that the stages `outputs` dropped and that fit, in an order drawn by `seed`.

    With `each` one of each reason. With a `grade` of decontamination also documents that were kept in spite of a
    finding of this grade. Returns the columns stage, id, source, reason, because, grade, score (similarity or
    coverage), question, response, answer, cause_question and cause_response.
    """
    wanted = {"stage": stage, "source": source, "reason": reason, "grade": grade, "id": id}
    with duckdb.connect() as connection:
        for name, (of, pattern, schema) in _FILES.items():
            files = [str(p) for output in outputs if of in (None, output.stage) for p in output.path.glob(pattern)]
            rows = connection.read_parquet(sorted(files), filename=True) if files else None
            (rows or connection.from_arrow(schema.empty_table())).create_view(name)
        query = (FOLDER / "queries" / "dropped.sql").read_text()
        return connection.execute(query, {**wanted, "sample": sample, "seed": seed, "each": each}).df()


def differences(first: str, second: str) -> tuple[list[Piece], list[Piece]]:
    """Split two texts into stretches that both have and stretches in which they differ, by whole words."""
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
