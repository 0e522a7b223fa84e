"""Observe what a trained model attends to along its depth, and which experts it chooses.

That is section 4.2 of the paper. Gini coefficients and Lorenz curves over what is stored are views
in SQL.
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

# Enough for shares of a few percent: of 64 experts at a depth each is chosen some hundred times.
SAMPLE_TOKENS = 8192
BATCH_TOKENS = 4096


# Batches of tokens [B, S] and the document of each [B, S], PADDING between them.
Sample = Sequence[tuple[Tensor, Tensor]]


@torch.no_grad()
def observe(model: Network, batches: Sample) -> dict[str, dict[str, np.ndarray]]:
    """Run an `observable` model over batches; return columns of `depth_attention`, `expert_usage`.

    Scores are means over the real tokens (padding left out), of a query depth over the key depths
    up to itself; none without attention along the depth. A model that does not iterate its block
    yet has fewer depths. Depths count from 1, experts from 0: a layered model has experts of its
    own at every depth, so equal numbers are different experts.
    Counts and biases of the balance are left as they are.
    """
    L = model.checked_depth(None)
    E = model.config.experts
    scores = torch.zeros(L, L, dtype=torch.float64)
    selections = torch.zeros(L, E, dtype=torch.long)
    tokens = 0
    training = model.training
    model.eval()
    try:
        for batch, labels in batches:
            documents = labels.to(model.device)
            real = documents.flatten() != PADDING
            tokens += int(real.sum())

            def see(index: int, name: str, result: Attended, real: Tensor = real) -> None:
                """Add what one attention at one depth has done."""
                if result.scores is not None:  # [T, N, depths]
                    # mean over heads, sum over tokens; in a window only the latest depths are seen
                    by_depth = result.scores[real].double().mean(dim=1).sum(dim=0).cpu()
                    scores[index, index + 1 - len(by_depth) : index + 1] += by_depth
                if name == "experts":
                    chosen = result.ids[real].flatten()
                    selections[index] += torch.bincount(chosen, minlength=E).cpu()

            model(batch.to(model.device), documents=documents, return_hidden=True, observer=see)
    finally:
        model.train(training)
    means = (scores / max(tokens, 1)).numpy()
    # one row for each pair of a depth and itself or an earlier one
    query, key = np.tril_indices(L if model.config.depth_attention else 0)
    depth, expert = (numbers.ravel() for numbers in np.indices(selections.shape))
    return {
        "depth_attention": {
            "query_depth": query + 1,
            "key_depth": key + 1,
            "score": means[query, key],
        },
        "expert_usage": {
            "depth": depth + 1,
            "expert": expert,
            "selections": selections.numpy().ravel(),
        },
    }


def sample_of_stream(packed: Path, tokens: int = SAMPLE_TOKENS) -> Sample:
    """Read rows of packed training data, always the same rows.

    They hold at most `tokens`, but are one row at least. Raises InputError if the folder is not a
    complete packed folder.
    """
    stream = TokenStream(packed, 0, 1)
    stream.batch_rows = max(1, min(stream.rows, tokens // stream.sequence_length))
    sample = stream.batch(0)
    rows = max(1, BATCH_TOKENS // stream.sequence_length)
    return list(zip(sample.tokens.split(rows), sample.documents.split(rows), strict=True))
