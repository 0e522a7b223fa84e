"""Read the documents of packed rows apart, for a model that reads a row as one text.

Each document becomes a row of its own, padded on the right, where padding changes nothing for a
causal model. Documents of like length are read together, so that little padding is read.

Axes: B batch, S sequence, T = B*S tokens, D documents, G documents of a group, L their padded
length, H hidden (or whatever the model returns).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Real tokens are 75 % of what is read in one group of a demo's step, 89 % in two and 97 % in four;
# but each group is a pass of its own, whose small products cost more than padding (docs/log.md).
GROUPS = 2
# Lengths are multiples of this, so that a model that compiles itself meets few shapes.
STEP = 8
PADDING = 0  # any token: a causal model's outputs before it do not depend on it


def read_apart(read: Callable[[Tensor], Tensor], tokens: Tensor, labels: Tensor) -> Tensor:
    """Read each document of rows [B, S] by itself; return what `read` says of it, [B, S, H].

    A document is a run of equal `labels` [B, S]; a label below 0 is padding of a row, whose places
    are 0 in the result. `read` takes tokens [G, L] to [G, L, H].
    """
    rows, length = tokens.shape
    flat = tokens.flatten()  # [T]
    starts, lengths = _documents(labels)  # [D]
    pieces = []
    places = []
    for group in lengths.argsort(descending=True).tensor_split(GROUPS):
        if not len(group):
            continue
        longest = int(lengths[group].max())
        padded = min(length, -(-longest // STEP) * STEP)
        columns = torch.arange(padded, device=tokens.device)
        is_real = columns < lengths[group, None]  # [G, L]
        where = starts[group, None] + columns  # [G, L], places in [T]
        documents = flat[where.clamp(max=len(flat) - 1)].masked_fill(~is_real, PADDING)
        pieces.append(read(documents)[is_real])  # [real tokens, H]
        places.append(where[is_real])
    states = torch.cat(pieces)
    empty = states.new_zeros(rows * length, states.shape[-1])
    return empty.index_copy(0, torch.cat(places), states).view(rows, length, -1)


def _documents(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Find where the documents of rows [B, S] begin in the flattened rows, and how long they are.

    Both are [D]. Padding is no document.
    """
    begins = torch.ones_like(labels, dtype=torch.bool)
    begins[:, 1:] = labels[:, 1:] != labels[:, :-1]
    starts = begins.flatten().nonzero().squeeze(1)
    end = starts.new_tensor([labels.numel()])
    lengths = torch.diff(starts, append=end)
    is_document = labels.flatten()[starts] >= 0
    return starts[is_document], lengths[is_document]
