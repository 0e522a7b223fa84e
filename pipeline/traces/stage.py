"""Strip the reasoning traces of a whole source, shard by shard."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.progress import Progress, quiet
from pipeline.storage.documents import DocumentWriter, read_shard
from pipeline.storage.parallel import Run, serial
from pipeline.storage.resumable import shard_by_shard
from pipeline.traces.marks import ANY_MARK
from pipeline.traces.strip import CLOSING, NONE, UNCLOSED, strip_trace

BATCH_ROWS = 1024  # traces are long
DROP_UNCLOSED = "trace never closed"
DROP_EMPTY = "nothing after the trace"
NO_CLOSING = "traces of this source end with a closing mark, and this response has none"


def strip_traces(
    source: Path | str,
    output: Path | str,
    *,
    marking: str = "none",
    run: Run = serial,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Run the stage: strip the reasoning traces from the documents of `source`.

    `marking` is the source's `trace`: marks are found without one too, but with one they are believed more readily
    (`strip`), and with "closing" a response without a mark is a trace that was cut off. Drops documents whose trace is
    not closed, and those without a solution. Returns `counts`, and as `traces` the number of documents of each source
    and kind. Finished shards survive an interruption.
    """
    work = partial(_strip_shard, marking)
    counts, traces = shard_by_shard(source, output, {"marking": marking}, work, kind="kind", run=run, progress=progress)
    return {"counts": counts, "traces": traces}


def _strip_shard(marking: str, path: Path, writer: DocumentWriter) -> Counter[tuple[str, str]]:
    """Strip one shard; return the number of documents of each (source, kind)."""
    kinds: Counter[tuple[str, str]] = Counter()
    for batch in read_shard(path, batch_rows=BATCH_ROWS):
        marked = pc.match_substring_regex(batch["response"], ANY_MARK, ignore_case=True)
        rows = zip(*(batch.filter(marked)[name].to_pylist() for name in ("response", "question")), strict=True)
        stripped = [strip_trace(response, question or "", marking) for response, question in rows]
        kind = _scatter(marked, [found.kind for found in stripped], pa.array([NONE] * len(batch), pa.string()))
        cut_off = pc.and_(pc.equal(kind, NONE), marking == CLOSING)
        kind = pc.if_else(cut_off, UNCLOSED, kind)
        kinds.update(zip(batch["source"].to_pylist(), kind.to_pylist(), strict=True))
        response = _scatter(marked, [found.text for found in stripped], batch["response"])
        documents = batch.set_column(batch.schema.get_field_index("response"), "response", response)
        unclosed = pc.equal(kind, UNCLOSED)
        empty = pc.and_(pc.not_equal(kind, NONE), pc.and_not(pc.equal(response, ""), unclosed))
        because = pc.if_else(cut_off, NO_CLOSING, pa.scalar(None, pa.string()))
        writer.drop(batch.filter(unclosed), DROP_UNCLOSED, because.filter(unclosed))
        writer.drop(batch.filter(empty), DROP_EMPTY)
        writer.keep(documents.filter(pc.invert(pc.or_(unclosed, empty))))
    return kinds


def _scatter(where: pa.Array, values: list[str], into: pa.Array) -> pa.Array:
    return pc.replace_with_mask(into, where, pa.array(values, pa.string()))
