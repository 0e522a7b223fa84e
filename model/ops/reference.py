"""The engine "reference": the mathematics of every operation, in its plainest form.

Dense, masked, one expert after the other, in any dtype. For reading and for tests, not for speed.
Nothing is prepared, sorted or merged, and every gradient is autograd's own. Functions stand in the
order of model/ops/__init__.py, which documents them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from dreamer_study.model.ops.types import Factors, Routing, Visible


def rms_norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """Compute x / sqrt(mean(x^2) + epsilon) * gain, in float32 where x is narrower."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    root_mean_square = (wide.square().mean(dim=-1, keepdim=True) + epsilon).sqrt()
    return (wide / root_mean_square * gain).to(x.dtype)


def rotate(x: Tensor, code: Tensor) -> Tensor:
    """Rotate the pairs (x[..., 2i], x[..., 2i + 1]).

    The cosines and sines of the angles are `code` [..., K/2, 2].
    """
    first, second = x[..., ::2], x[..., 1::2]
    cosine, sine = code[..., 0], code[..., 1]
    rotated = (first * cosine - second * sine, first * sine + second * cosine)
    return torch.stack(rotated, dim=-1).flatten(-2).to(x.dtype)


def split_heads(
    projected: Tensor,
    query_gain: Tensor,
    key_gain: Tensor,
    heads: tuple[int, int],
    epsilon: float,
    code: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Split, then rotate and normalise queries and keys."""
    N, M = heads
    query, key, value = projected.unflatten(-1, (N + 2 * M, -1)).split((N, M, M), dim=1)
    query = rms_norm(rotate(query, code), query_gain, epsilon)
    key = rms_norm(rotate(key, code), key_gain, epsilon)
    return query, key, value


def routing_keys(
    query: Tensor, query_gain: Tensor, keys: Tensor, epsilon: float, code: Tensor | None
) -> list[tuple[Tensor | None, ...]]:
    """Return everything that Eq. 2 needs at each depth; nothing is prepared."""
    if code is None:
        return [(query, query_gain, keys, None)]
    return [(query, query_gain, keys, code_of_depth) for code_of_depth in code]


def route(
    x: Tensor,
    keys: tuple[Tensor | None, ...],
    bias: Tensor,
    active: int,
    normalised: bool,
    epsilon: float,
) -> Routing:
    """Choose experts by Eq. 2."""
    query_weights, query_gain, key_weights, code = keys
    query = x.to(query_weights.dtype) @ query_weights  # [T, R]
    if code is not None:
        query = rotate(query, code)
    query = rms_norm(query, query_gain, epsilon)
    key = rms_norm(key_weights, torch.ones_like(query_gain), epsilon)  # [E, R]
    logits = query @ key.T / key.shape[1] ** 0.5  # [T, E]
    ids = (logits + bias).topk(active, dim=-1).indices  # [T, A]
    scores = torch.sigmoid(logits.gather(-1, ids))
    if normalised:
        scores = scores / scores.sum(dim=-1, keepdim=True)
    return Routing(ids, scores)


def mixed_weights(
    weights: Tensor, shared: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Cast the weights; nothing is merged."""
    return weights.to(dtype), None if shared is None else shared.to(dtype)


def mixed_product(x: Tensor, routing: Routing, weights: tuple[Tensor, Tensor | None]) -> Tensor:
    """Add s x W and x W_shared scaled by the same score without its gradient (Eq. 7)."""
    own, shared = weights  # [E, I, O], [I, O]
    score = _of_each_expert(routing, len(own), x.dtype)  # [T, E], one of a row is not 0
    output = sum(score[:, e, None] * (x @ weight) for e, weight in enumerate(own))
    if shared is not None:
        output = output + score.detach().sum(dim=-1, keepdim=True) * (x @ shared)
    return output


def swiglu_experts(
    x: Tensor, routing: Routing, inward: Tensor, outward: Tensor, taps: Factors | None
) -> Tensor:
    """Compute every expert for every token, and add the outputs up by their scores."""
    score = _of_each_expert(routing, len(inward), x.dtype)  # [T, E], A of a row are not 0
    output = torch.zeros_like(x)
    for e, (gate_and_up, down) in enumerate(zip(inward, outward, strict=True)):
        gate, up = (x @ gate_and_up).chunk(2, dim=-1)  # [T, F] each
        hidden = gate * torch.sigmoid(gate) * up  # SiLU(gate) * up
        output = output + score[:, e, None] * (hidden @ down)
    return output


def expert_weights(weights: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast the weights."""
    return weights.to(dtype)


def gradient_taps(
    inward: Tensor, outward: Tensor, uses: int, tokens: int, active: int
) -> Iterator[Factors | None]:
    """Return no taps: autograd computes the gradients of the experts' weights at each use."""
    return iter([None] * uses)


def attend_sequence(query: Tensor, key: Tensor, value: Tensor, visible: Visible) -> Tensor:
    """Attend along the sequence with one key/value head for each query head (Eq. 1)."""
    query = query.unflatten(0, (len(key), -1)).transpose(1, 2)  # [B, N, S, K]
    groups = query.shape[1] // key.shape[2]
    key = key.transpose(1, 2).repeat_interleave(groups, dim=1)  # [B, N, C, K]
    value = value.transpose(1, 2).repeat_interleave(groups, dim=1)
    attended, _ = _attention(query, key, value, visible.pairs.unsqueeze(1))
    return attended.transpose(1, 2).flatten(0, 1)


def attend_depth(
    query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Attend along the depth: tokens are the batch, depths the sequence (Eq. 1, Algorithm 1)."""
    groups = query.shape[1] // keys[0].shape[1]
    key = torch.stack(tuple(keys), dim=2).repeat_interleave(groups, dim=1)  # [T, N, depths, K]
    value = torch.stack(tuple(values), dim=2).repeat_interleave(groups, dim=1)
    everything = torch.ones(len(keys), dtype=torch.bool, device=query.device)
    attended, scores = _attention(query.unsqueeze(2), key, value, everything)
    return attended.squeeze(2), scores.squeeze(2).detach()


def cross_entropy_sum(
    hidden: Tensor,
    head: Tensor,
    targets: Tensor,
    chunk_elements: int | None = None,
    compiled: bool = False,
) -> Tensor:
    """Compute the loss from all logits at once."""
    return F.cross_entropy(hidden @ head.T, targets, reduction="sum")


def _attention(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
    """Apply Eq. 1: softmax(q k^T / sqrt(K)) v over visible keys; return also the scores.

    Query [..., m, K], key and value [..., n, K], booleans `visible` [..., m, n].
    """
    logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    scores = logits.masked_fill(~visible, float("-inf")).softmax(dim=-1)
    return scores @ value, scores


def _of_each_expert(routing: Routing, experts: int, dtype: torch.dtype) -> Tensor:
    """Spread the scores over all experts [T, E]: zero where an expert is not chosen."""
    scores = routing.scores.to(dtype)
    return scores.new_zeros(len(scores), experts).scatter(-1, routing.ids, scores)
