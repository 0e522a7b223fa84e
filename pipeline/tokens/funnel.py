"""Count the tokens that each stage of curation kept and dropped, by source and reason.

The tokenizer is trained on curated documents, so tokens are counted afterwards, in the `documents/`
and `dropped/` of the stages. A stage's kept tokens of a source are those that the next stage kept
and dropped, unless the next stage changed a text of the source; the final stage's are those that
the packing took.

Groups (stage, source, reason) of up to `EXACT_CHARACTERS` or `LEAST_SAMPLED` documents are counted
in full. Of a larger group, a random sample of about as many characters, and at least as many
documents, gives the tokens per character: the error is below 0.5 % where documents are short, and
up to a few percent where the sample is a few hundred long ones. A document's tokens include its end
mark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dreamer_study.pipeline.storage.documents import (
    KEPT,
    count_documents,
    read_shard,
    shards,
    sum_counts,
)
from dreamer_study.pipeline.storage.parallel import Progress, quiet
from dreamer_study.pipeline.tokens.tokenizer import encode_documents, read_tokenizer

EXACT_CHARACTERS = 2_000_000
# documents: of ten documents too long for the clean text, a sample by characters may hold none
LEAST_SAMPLED = 300
BATCH = 1024

Counts = Sequence[dict[str, Any]]


class Stage(NamedTuple):
    """A finished stage; `changed` are the sources of which it keeps a text that it changed."""

    name: str
    folder: Path
    counts: Counts
    changed: frozenset[str]


def count_tokens(
    stages: Sequence[Stage], packed: Counts, tokenizer: Path, *, progress: Progress = quiet
) -> list[dict[str, Any]]:
    """Count tokens for every count of the stages.

    Returns rows {"stage", "source", "reason", "tokens", "exact"}. `stages` are in the order of
    curation; `packed` are the counts of the packing, with tokens.
    """
    codec = read_tokenizer(tokenizer)
    taken: Counter[str] = Counter()  # by the packing: packed, and held out for validation
    for row in packed:
        taken[row["source"]] += row["tokens"]
    # tokens that the current stage kept
    known = {source: (tokens, True) for source, tokens in taken.items()}
    rows: list[dict[str, Any]] = []
    for done, stage in enumerate(reversed(stages)):
        kept = {row["source"] for row in stage.counts if row["reason"] == KEPT}
        found = _tokens_of(codec, stage, "dropped")
        if kept - known.keys():
            found |= _tokens_of(codec, stage, "documents")
        found |= {(source, KEPT): known[source] for source in kept & known.keys()}
        for row in stage.counts:
            tokens, exact = found[_group(row)]
            group = {"stage": stage.name, "source": row["source"], "reason": row["reason"]}
            rows.append({**group, "tokens": tokens, "exact": exact})
        for source in {row["source"] for row in stage.counts}:
            parts = [value for (name, _), value in found.items() if name == source]
            known.pop(source, None)
            if source not in stage.changed:
                known[source] = (
                    sum(tokens for tokens, _ in parts),
                    all(exact for _, exact in parts),
                )
        progress((done + 1) / len(stages), f"{done + 1} of {len(stages)} stages")
    return rows[::-1]


def _tokens_of(codec: Any, stage: Stage, kind: str) -> dict[tuple[str, str], tuple[int, bool]]:
    """Count the tokens of each (source, reason) in `kind` of a stage.

    True where each document was counted, not a sample.
    """
    groups = {
        _group(row): row for row in stage.counts if (row["reason"] == KEPT) == (kind == "documents")
    }
    fractions = {
        group: max(
            EXACT_CHARACTERS / max(row["characters"], 1), LEAST_SAMPLED / max(row["documents"], 1)
        )
        for group, row in groups.items()
    }
    random = np.random.default_rng(0)
    counts: list[dict[str, Any]] = []
    columns = ["source", "question", "response", *(["reason"] if kind == "dropped" else [])]
    for path in shards(stage.folder, kind):
        for batch in read_shard(path, columns=columns, batch_rows=BATCH):
            reasons = batch["reason"].to_pylist() if kind == "dropped" else [KEPT] * len(batch)
            shares = [
                fractions[group] for group in zip(batch["source"].to_pylist(), reasons, strict=True)
            ]
            taken = pa.array(np.flatnonzero(random.random(len(batch)) < np.array(shares)))
            sampled = batch.take(taken)
            _, lengths = encode_documents(codec, sampled)
            counted = count_documents(
                sampled, pa.array(reasons).take(taken), lengths.sum(axis=1) + 1
            )
            counts = sum_counts([counts, counted])
    sums = {_group(row): row for row in counts}
    nothing = {"tokens": 0, "characters": 0}
    results = {}
    for group, row in groups.items():
        sampled_sums = sums.get(group, nothing)
        tokens = sampled_sums["tokens"]
        exact = fractions[group] >= 1
        if not exact:  # the sample's tokens for each character, times all characters
            tokens = round(tokens * row["characters"] / max(sampled_sums["characters"], 1))
        results[group] = (tokens, exact)
    return results


def _group(row: dict[str, Any]) -> tuple[str, str]:
    return row["source"], row["reason"]
