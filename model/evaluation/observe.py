"""Observe what a trained model attends to along its depth, and which experts it chooses (section
4.2).

Gini coefficients and Lorenz curves over what is stored are views in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dreamer_study.model.contract import Network
from dreamer_study.model.ops import Attended
from dreamer_study.model.training.stream import PADDING, TokenStream

# Enough for shares of a few percent: among 64 experts at a depth, each is chosen some hundred
# times.
SAMPLE_TOKENS = 8192
BATCH_TOKENS = 4096


# Batches of tokens [B, S] and the document of each [B, S], PADDING between them.
Sample = Sequence[tuple[Tensor, Tensor]]


@torch.no_grad()
def observe(model: Network, batches: Sample) -> dict[str, dict[str, np.ndarray]]:
    """Run a model that is `observable` over batches; return the columns of `depth_attention` and
    `expert_usage`.

    Scores are means over the real tokens (padding left out), of a query depth over the key depths
    up to itself; none without attention along the depth. Depths count from 1, experts from 0: a
    layered model has experts of its own at every depth, so equal numbers are different experts.
    Counts and biases of the balance are left as they are.
    """
    L, E = model.config.depth, model.config.experts
    scores = torch.zeros(L, L, dtype=torch.float64)
    selections = torch.zeros(L, E, dtype=torch.long)
    tokens = 0
    training = model.training
    model.eval()
    try:
        for batch, documents in batches:
            batch, documents = batch.to(model.device), documents.to(model.device)
            valid = documents.flatten() != PADDING
            tokens += int(valid.sum())

            def see(index: int, name: str, result: Attended, valid: Tensor = valid) -> None:
                if result.scores is not None:
                    seen = result.scores[valid].double().mean(dim=1).sum(dim=0).cpu()
                    scores[index, index + 1 - len(seen) : index + 1] += seen
                if name == "experts":
                    selections[index] += torch.bincount(
                        result.ids[valid].flatten(), minlength=E
                    ).cpu()

            model(batch, documents=documents, return_hidden=True, observer=see)
    finally:
        model.train(training)
    scores = (scores / max(tokens, 1)).numpy()
    query, key = np.tril_indices(L if model.config.depth_attention else 0)
    depth, expert = (numbers.ravel() for numbers in np.indices(selections.shape))
    return {
        "depth_attention": {
            "query_depth": query + 1,
            "key_depth": key + 1,
            "score": scores[query, key],
        },
        "expert_usage": {
            "depth": depth + 1,
            "expert": expert,
            "selections": selections.numpy().ravel(),
        },
    }


def sample_of_stream(packed: Path, tokens: int = SAMPLE_TOKENS) -> Sample:
    """Read rows of packed training data, always the same rows, worth at most `tokens` (but one row
    at least).

    Raises InputError if the folder is not a complete packed folder.
    """
    stream = TokenStream(packed, 0, 1)
    stream.batch_rows = max(1, min(stream.rows, tokens // stream.sequence_length))
    read, rows = stream.batch(0), max(1, BATCH_TOKENS // stream.sequence_length)
    return list(zip(read.tokens.split(rows), read.documents.split(rows), strict=True))
