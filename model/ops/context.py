"""What the parts of the network tell each other in one forward: codes of positions and depths, masks, and the form
of a result.

Axes: B batch, S sequence, T = B*S tokens, L depth, H hidden, N query heads, M key/value heads, K head size, A active
experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from model.cache import Cache

Prepared = tuple[Tensor | None, ...]  # what an attention needs at one depth and that no token changes
History = list[tuple[Tensor, Tensor]]  # keys and values [T, M, K] of earlier depths


class Result(NamedTuple):
    """What an attention of any dimension returns at one depth."""

    stream: Tensor  # [T, H], the residual stream with its update
    ids: Tensor | None = None  # [T, A], the experts its router chose, where it has one
    history: History = []  # noqa: RUF012  what its next depth is to see
    scores: Tensor | None = None  # [T, N, depths], attention along the depth


@dataclass(frozen=True)
class Context:
    """What all depths of one forward share."""

    batch: int
    length: int
    code: Tensor  # of the positions, [T, 1, K/2, 2]
    depth_code: Tensor  # of the depths, for the heads of depth attention, [L, K/2, 2]
    routing_code: Tensor | None  # of the depths, for routing, [L, R/2, 2]; layers of their own need none
    mask: Tensor | None  # added to the scores of sequence attention; None: causal
    bounds: Tensor | None  # of the documents in the flattened batch, [D + 1], for a kernel that needs no mask
    starts: Tensor | None  # where what each token of the flattened batch sees begins, [T], likewise
    positions: Tensor  # [B, S]
    cache: Cache | None


def position_code(positions: Tensor, size: int, base: float, dtype: torch.dtype) -> Tensor:
    """RoPE of heads of `size` at `positions` [...]: cosine and sine of each pair's angle, [..., size/2, 2].

    The angles are computed in float64: in float32 they are off by 1e-4 at position 4096.
    """
    exponents = torch.arange(size // 2, device=positions.device, dtype=torch.float64) / (size // 2)
    angles = positions[..., None] * base**-exponents
    return torch.stack((angles.cos(), angles.sin()), dim=-1).to(dtype)


def depth_code(depth: int, size: int, base: float, device: torch.device, dtype: torch.dtype) -> Tensor:
    """RoPE of depths 1..L, [L, size/2, 2] (section 3.4).

    The first half of the pairs turns with the depth l, the second half, at the same frequencies, with L - l: it
    tells how much is still to come.
    """
    depths = torch.arange(1, depth + 1, device=device)
    halves = [position_code(direction, size // 2, base, dtype) for direction in (depths, depth - depths)]
    return torch.cat(halves, dim=-2)


def document_positions(documents: Tensor) -> Tensor:
    """Positions [B, S] within each run of equal labels [B, S]."""
    index = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    starts = torch.zeros_like(index)
    starts[:, 1:] = index[:, 1:] * (documents[:, 1:] != documents[:, :-1])
    return index - starts.cummax(dim=1).values


def document_starts(documents: Tensor) -> Tensor:
    """Where in the flattened batch the run of equal labels [B, S] begins that a token belongs to, [T]."""
    return torch.arange(documents.numel(), device=documents.device) - document_positions(documents).flatten()


def document_mask(documents: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive mask [B, 1, S, S]: a position sees those up to itself in its run of equal labels [B, S]."""
    runs = document_starts(documents).view_as(documents).int()
    causal = torch.ones(2 * runs.shape[1:], dtype=torch.bool, device=runs.device).tril()
    return additive_mask((runs[:, :, None] == runs[:, None, :]).logical_and_(causal), dtype)


def additive_mask(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Mask [B, 1, Q, S] to add to attention scores, from the booleans [B, Q, S] of what each query may see."""
    return torch.where(visible, 0.0, float("-inf")).to(dtype).unsqueeze(1)
