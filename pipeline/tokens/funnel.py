"""Count the tokens that each stage of curation kept and dropped, by source and reason.

The tokenizer is trained on curated documents, so tokens are counted afterwards, in the `documents/` and `dropped/` of
the stages. A stage's kept tokens of a source are those that the next stage kept and dropped, unless the next stage
changed a text of the source; the final stage's are those that the packing took.

Groups (stage, source, reason) of up to `EXACT_CHARACTERS` or `LEAST_SAMPLED` documents are counted in full. Of a larger
group, a random sample of about as many characters, and at least as many documents, gives the tokens per character: the
error is below 0.5 % where documents are short, and up to a few percent where the sample is a few hundred long ones. A
document's tokens include its end mark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.progress import Progress, quiet
from pipeline.storage.documents import KEPT, read_shard, shards
from pipeline.tokens.tokenizer import encode_documents, read_tokenizer

EXACT_CHARACTERS = 2_000_000
LEAST_SAMPLED = 300  # documents: of ten documents too long for the clean text, a sample by characters may hold none
BATCH = 1024
TEXTS = ("question", "response")

Counts = Sequence[dict[str, Any]]


class Stage(NamedTuple):
    """A finished stage: name, folder, counts, and the sources of which it keeps a text that it changed."""

    name: str
    folder: Path
    counts: Counts
    changed: frozenset[str]


def count_tokens(
    stages: Sequence[Stage],
    packed: Counts,
    tokenizer: Path,
    *,
    most: int = EXACT_CHARACTERS,
    progress: Progress = quiet,
) -> list[dict[str, Any]]:
    """Count tokens: a row {"stage", "source", "reason", "tokens", "exact"} for every count of the stages.

    `stages` are in the order of curation; `packed` are the counts of the packing, with tokens. Groups of more than
    `most` characters and `LEAST_SAMPLED` documents are sampled.
    """
    codec = read_tokenizer(tokenizer)
    taken: Counter[str] = Counter()  # by the packing: packed, and held out for validation
    for row in packed:
        taken[row["source"]] += row["tokens"]
    known = {source: (tokens, True) for source, tokens in taken.items()}  # tokens that the current stage kept
    rows: list[dict[str, Any]] = []
    for done, stage in enumerate(reversed(stages)):
        kept = {row["source"] for row in stage.counts if row["reason"] == KEPT}
        found = _tokens_of(codec, stage, "dropped", most)
        if kept - known.keys():
            found |= _tokens_of(codec, stage, "documents", most)
        found |= {(source, KEPT): known[source] for source in kept & known.keys()}
        for row in stage.counts:
            tokens, exact = found[row["source"], row["reason"]]
            group = {"stage": stage.name, "source": row["source"], "reason": row["reason"]}
            rows.append({**group, "tokens": tokens, "exact": exact})
        for source in {row["source"] for row in stage.counts}:
            parts = [value for (name, _), value in found.items() if name == source]
            known.pop(source, None)
            if source not in stage.changed:
                known[source] = (sum(tokens for tokens, _ in parts), all(exact for _, exact in parts))
        progress((done + 1) / len(stages), f"{done + 1} of {len(stages)} stages")
    return rows[::-1]


def _tokens_of(codec: Any, stage: Stage, kind: str, most: int) -> dict[tuple[str, str], tuple[int, bool]]:
    """Count the tokens of each (source, reason) in `kind` of a stage; True where each document was counted."""
    groups_of = [row for row in stage.counts if (row["reason"] == KEPT) == (kind == "documents")]
    characters = {(row["source"], row["reason"]): row["characters"] for row in groups_of}
    fractions = {
        (row["source"], row["reason"]): min(
            1.0, max(most / max(row["characters"], 1), LEAST_SAMPLED / max(row["documents"], 1))
        )
        for row in groups_of
    }
    counted: dict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.zeros(2, np.int64))  # characters, tokens
    random = np.random.default_rng(0)
    for path in shards(stage.folder, kind):
        for batch in read_shard(path, columns=["source", *TEXTS, *(["reason"] if kind == "dropped" else [])]):
            sources = batch["source"].to_pylist()
            reasons = batch["reason"].to_pylist() if kind == "dropped" else [KEPT] * len(batch)
            groups = list(zip(sources, reasons, strict=True))
            taken = np.flatnonzero(random.random(len(batch)) < np.array([fractions[group] for group in groups]))
            for start in range(0, len(taken), BATCH):
                sampled = taken[start : start + BATCH]
                lengths = _lengths(codec, batch.select(TEXTS).take(pa.array(sampled)))
                for number, length in zip(sampled.tolist(), lengths, strict=True):
                    counted[groups[number]] += length
    found = {}
    for group, total in characters.items():
        seen, tokens = counted[group].tolist()
        exact = fractions[group] == 1.0
        found[group] = (tokens if exact else round(tokens * total / max(seen, 1)), exact)
    return found


def _lengths(codec: Any, texts: pa.RecordBatch) -> np.ndarray:
    """Count the characters and tokens of documents, int64 [documents, 2]."""
    characters = pc.add(*(pc.fill_null(pc.utf8_length(texts[name]), 0) for name in TEXTS))
    _, lengths = encode_documents(codec, texts)
    return np.stack([characters.to_numpy(), lengths.sum(axis=1) + 1], axis=1)
