"""Strip the reasoning traces of a whole source, shard by shard."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.storage.documents import DocumentWriter, read_shard
from dreamer_study.pipeline.storage.parallel import Progress, Workers, quiet, serial
from dreamer_study.pipeline.storage.resumable import shard_by_shard
from dreamer_study.pipeline.traces.examined import DECLARED, NONE, STRIPPED, UNCLOSED, UNMARKED
from dreamer_study.pipeline.traces.marks import Own
from dreamer_study.pipeline.traces.strip import examine, strip_history

BATCH_ROWS = 1024  # traces are long
KEPT_TRACES = "kept"  # the `trace` of a source whose documents stay as they are
DROP_UNCLOSED = "trace never closed"
DROP_EMPTY = "nothing after the trace"
DROP_UNMARKED = "unmarked trace"
_OF_QUESTION = "question"  # the kind under which questions with a stripped trace are counted
_LEFT = "left: "  # the kind under which kept documents with a mark are counted, beside their own
LONGEST_LEFT = 30  # characters of a mark that stays
NO_CLOSING = "traces of this source end with a closing mark, and this response has none"


def strip_traces(
    source: Path | str,
    output: Path | str,
    *,
    marking: str = "none",
    longest_unmarked: int = sys.maxsize,
    marks: Sequence[Sequence[str]] = (),
    run: Workers = serial,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Run the stage: strip the reasoning traces from the documents of `source`.

    `marking` is the source's `trace`: marks are found without one too, but with one more marks are
    believed (`strip`), and with "closing" a response without a mark is a trace that was cut off;
    with "kept" every document stays as it is.
    `marks` are pairs of opening and closing marks beside those of the table.
    Drops documents whose trace is not closed, those without a solution, and responses of more than
    `longest_unmarked` characters without a mark in a source that declares traces. Returns `counts`,
    `traces`: documents by source and kind, `questions`: documents by source whose question lost a
    trace of an earlier turn, and `marks`: kept documents by source and the first mark or mention
    that stays in them. Finished shards survive a kill.
    """
    own = tuple((opening, closing) for opening, closing in marks)
    work = partial(_strip_shard, marking, longest_unmarked, own)
    settings = {"marking": marking, "longest_unmarked": longest_unmarked, "marks": own}
    counts, tallied = shard_by_shard(
        source, output, settings, work, kind="kind", run=run, progress=progress
    )
    left = [
        {
            "source": row["source"],
            "mark": row["kind"].removeprefix(_LEFT),
            "documents": row["documents"],
        }
        for row in tallied
        if row["kind"].startswith(_LEFT)
    ]
    questions = [
        {"source": row["source"], "documents": row["documents"]}
        for row in tallied
        if row["kind"] == _OF_QUESTION
    ]
    traces = [
        row for row in tallied if row["kind"] != _OF_QUESTION and not row["kind"].startswith(_LEFT)
    ]
    return {"counts": counts, "traces": traces, "questions": questions, "marks": left}


def _strip_shard(
    marking: str, longest_unmarked: int, own: Own, path: Path, writer: DocumentWriter
) -> Counter[tuple[str, str]]:
    """Strip one shard; return the number of documents of each (source, kind)."""
    kinds: Counter[tuple[str, str]] = Counter()
    for batch in read_shard(path, batch_rows=BATCH_ROWS):
        if marking == KEPT_TRACES:
            kinds.update((source, NONE) for source in batch["source"].to_pylist())
            writer.keep(batch)
            continue
        responses = batch["response"].to_pylist()
        examined = [examine(response or "", marking, own) for response in responses]
        response = pa.array([each.text for each in examined], pa.string())
        kind = pa.array([each.kind for each in examined], pa.string())
        cut_off = pc.and_(pc.equal(kind, NONE), marking == "closing")
        kind = pc.if_else(cut_off, UNCLOSED, kind)
        long = pc.and_(pc.greater(pc.utf8_length(response), longest_unmarked), marking in DECLARED)
        unmarked = pc.and_(pc.equal(kind, NONE), long)
        kind = pc.if_else(unmarked, UNMARKED, kind)
        kinds.update(zip(batch["source"].to_pylist(), kind.to_pylist(), strict=True))
        documents = batch.set_column(batch.schema.get_field_index("response"), "response", response)
        asked = [question or "" for question in batch["question"].to_pylist()]
        plain = [strip_history(question, own) for question in asked]
        sources = batch["source"].to_pylist()
        kinds.update(
            (source, _OF_QUESTION)
            for source, before, after in zip(sources, asked, plain, strict=True)
            if before != after
        )
        if plain != asked:
            place = documents.schema.get_field_index("question")
            documents = documents.set_column(place, "question", pa.array(plain, pa.string()))
        unclosed = pc.equal(kind, UNCLOSED)
        empty = pc.and_(pc.equal(kind, STRIPPED), pc.equal(response, ""))
        because = pc.if_else(cut_off, NO_CLOSING, pa.scalar(None, pa.string()))
        writer.drop(batch.filter(unclosed), DROP_UNCLOSED, because.filter(unclosed))
        writer.drop(batch.filter(empty), DROP_EMPTY)
        writer.drop(batch.filter(unmarked), DROP_UNMARKED)
        kept = pc.invert(pc.or_(pc.or_(unclosed, empty), unmarked))
        writer.keep(documents.filter(kept))
        kinds.update(
            (name, _LEFT + " ".join(each.left.lower().split())[:LONGEST_LEFT])
            for name, each, stays in zip(
                batch["source"].to_pylist(), examined, kept.to_pylist(), strict=True
            )
            if stays and each.left
        )
    return kinds
