"""The funnel in tokens: how many tokens each stage of curation kept and dropped, by source and reason.

Tokens exist only once the tokenizer does, which is trained on what curation leaves; so they are counted afterwards,
over what the stages wrote to `documents/` and `dropped/`. What a stage kept is what the next one kept and dropped, so
it is only counted where the next one changes texts; what the last one kept are the tokens of the packed stream.

Of every group (stage, source, reason) of at most `EXACT_CHARACTERS` each document is counted. Of a larger one a random
sample of about as many characters is, evenly spread over all its documents, and the group has as many tokens per
character as its sample: the error is below half a percent, and a larger corpus only takes longer to read. A document's
tokens are those that it has, or would have, in training, its end mark included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.progress import Progress, quiet
from pipeline.storage.documents import KEPT, read_shard, shards
from pipeline.tokens.tokenizer import read_tokenizer, training_parts

EXACT_CHARACTERS = 2_000_000
BATCH = 1024
TEXTS = ("question", "response")

Counts = Sequence[dict[str, Any]]


class Stage(NamedTuple):
    """A finished stage: its name, its folder, its counts, and whether it leaves the texts that it keeps unchanged."""

    name: str
    folder: Path
    counts: Counts
    unchanged: bool


def count_tokens(
    stages: Sequence[Stage],
    packed: Counts,
    tokenizer: Path,
    *,
    most: int = EXACT_CHARACTERS,
    progress: Progress = quiet,
) -> list[dict[str, Any]]:
    """Rows {"stage", "source", "reason", "tokens", "exact"} for every count of the stages.

    `stages` are in order, so that of each source a later one took in what the one before it kept; `packed` are the
    counts of the packed stream, with their tokens.
    """
    codec = read_tokenizer(tokenizer)
    known = {row["source"]: (row["tokens"], True) for row in packed}  # what the stage at hand kept, by source
    rows: list[dict[str, Any]] = []
    for done, stage in enumerate(reversed(stages)):
        kept = {row["source"] for row in stage.counts if row["reason"] == KEPT}
        found = _tokens_of(codec, stage, "dropped", most)
        if kept - known.keys():
            found |= _tokens_of(codec, stage, "documents", most)
        found |= {(source, KEPT): known[source] for source in kept & known.keys()}
        for row in stage.counts:
            tokens, exact = found[row["source"], row["reason"]]
            said = {"stage": stage.name, "source": row["source"], "reason": row["reason"]}
            rows.append({**said, "tokens": tokens, "exact": exact})
        for source in {row["source"] for row in stage.counts}:
            parts = [value for (name, _), value in found.items() if name == source]
            known.pop(source, None)
            if stage.unchanged:
                known[source] = (sum(tokens for tokens, _ in parts), all(exact for _, exact in parts))
        progress((done + 1) / len(stages), f"{done + 1} of {len(stages)} stages")
    return rows[::-1]


def _tokens_of(codec: Any, stage: Stage, kind: str, most: int) -> dict[tuple[str, str], tuple[int, bool]]:
    """Tokens of each (source, reason) of a stage's documents or dropped ones, and whether each document was counted."""
    characters = {
        (row["source"], row["reason"]): row["characters"]
        for row in stage.counts
        if (row["reason"] == KEPT) == (kind == "documents")
    }
    shares = {group: min(1.0, most / max(total, 1)) for group, total in characters.items()}
    counted: dict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.zeros(2, np.int64))  # characters, tokens
    random = np.random.default_rng(0)
    for path in shards(stage.folder, kind):
        for batch in read_shard(path, columns=["source", *TEXTS, *(["reason"] if kind == "dropped" else [])]):
            sources = batch["source"].to_pylist()
            reasons = batch["reason"].to_pylist() if kind == "dropped" else [KEPT] * len(batch)
            groups = list(zip(sources, reasons, strict=True))
            taken = np.flatnonzero(random.random(len(batch)) < np.array([shares[group] for group in groups]))
            for start in range(0, len(taken), BATCH):
                some = taken[start : start + BATCH]
                lengths = _lengths(codec, batch.select(TEXTS).take(pa.array(some)))
                for number, length in zip(some.tolist(), lengths, strict=True):
                    counted[groups[number]] += length
    found = {}
    for group, total in characters.items():
        seen, tokens = counted[group].tolist()
        exact = shares[group] == 1.0
        found[group] = (tokens if exact else round(tokens * total / max(seen, 1)), exact)
    return found


def _lengths(codec: Any, texts: pa.RecordBatch) -> np.ndarray:
    """Characters and tokens of documents, int64 [documents, 2]."""
    characters = pc.add(*(pc.fill_null(pc.utf8_length(texts[name]), 0) for name in TEXTS))
    parts = zip(*map(training_parts, *(texts[name].to_pylist() for name in TEXTS)), strict=True)
    tokens = [[len(one.ids) for one in codec.encode_batch_fast(part, add_special_tokens=False)] for part in parts]
    return np.stack([characters.to_numpy(), np.array(tokens).sum(axis=0) + 1], axis=1)
