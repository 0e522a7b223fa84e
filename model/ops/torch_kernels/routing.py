"""Routing (Eq. 2) in torch's operations, and the sort of tokens by expert."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dreamer_study.model.ops.gpu import on_gpu
from dreamer_study.model.ops.torch_kernels.norms import rms_norm, rotate
from dreamer_study.model.ops.types import Dispatch, Routing

MOST_ROUNDS = 16
"""The most experts that are chosen by one maximum after the other.

Torch's topk finds the last value to be chosen by 2 of its 32 bits at a time.
"""


def routing_keys(
    query: Tensor, query_gain: Tensor, keys: Tensor, epsilon: float, code: Tensor | None
) -> list[tuple[Tensor, Tensor]]:
    """Return the query projection, and per depth the keys [E, R] with all that the logits need.

    A depth code rotates all queries of a depth alike, so the few keys are rotated backwards
    instead, which gives the same logits. The gain of the queries and the 1/sqrt(R) of the logits
    are multiplied into the keys as well.
    """
    scale = query_gain * len(query_gain) ** -0.5
    keys = rms_norm(keys, torch.ones_like(query_gain), epsilon) * scale
    if code is None:
        return [(query, keys)]
    rotated = rotate(keys.unsqueeze(0), code.unsqueeze(1), back=True)  # [L, E, R]
    return [(query, keys_of_depth) for keys_of_depth in rotated.unbind()]


def route(
    x: Tensor,
    keys: tuple[Tensor, Tensor],
    bias: Tensor,
    active: int,
    normalised: bool,
    epsilon: float,
) -> Routing:
    """Choose experts, and sort tokens by them."""
    scores, ids = _Route.apply(x, *keys, bias, active, normalised, epsilon)
    return Routing(ids, scores, dispatch(ids, len(bias)))


class _Route(torch.autograd.Function):
    """Choose experts: only the chosen logits pass a gradient on and are kept.

    Forward, with q = x W_q, as the keys hold gain, rotation and 1 / sqrt(R) already:

        s = (q k^T) / rms(q);  scores = sigmoid(s), divided by their sum where normalised

    x is kept in its own precision.
    """

    @staticmethod
    def forward(
        ctx,
        x: Tensor,
        query: Tensor,
        keys: Tensor,
        bias: Tensor,
        active: int,
        normalised: bool,
        epsilon: float,
    ) -> tuple[Tensor, Tensor]:
        q = x.to(query.dtype) @ query
        square = torch.linalg.vector_norm(q, dim=-1, keepdim=True).square_()
        scale = square.div_(q.shape[-1]).add_(epsilon).rsqrt_()
        logits = (q @ keys.T).mul_(scale)
        ids = _largest(logits + bias, active)
        chosen = logits.gather(-1, ids)
        sigmoid = torch.sigmoid(chosen)
        total = sigmoid.sum(dim=-1, keepdim=True).add_(1e-20) if normalised else None
        ctx.save_for_backward(x, query, keys, q, scale, ids, chosen, sigmoid, total)
        ctx.mark_non_differentiable(ids)
        return sigmoid / total if normalised else sigmoid, ids

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, query, keys, q, scale, ids, chosen, sigmoid, total = ctx.saved_tensors
        if total is not None:
            gradient = (gradient - (gradient * sigmoid).sum(dim=-1, keepdim=True) / total) / total
        gradient = gradient * sigmoid * (1 - sigmoid) * scale
        logits_gradient = gradient.new_zeros(len(x), len(keys)).scatter_(-1, ids, gradient)
        along = (gradient * chosen).sum(dim=-1, keepdim=True).mul_(scale).div_(q.shape[-1])
        q_gradient = (logits_gradient @ keys).addcmul_(q, along, value=-1)
        x_gradient = (q_gradient @ query.T).to(x.dtype)
        query_gradient = x.to(q.dtype).T @ q_gradient
        return x_gradient, query_gradient, logits_gradient.T @ q, None, None, None, None


def _largest(values: Tensor, count: int) -> Tensor:
    """Find the places of the `count` largest values of each row.

    Compiled, this is one kernel with what makes the values.
    """
    if count == 1:
        return values.argmax(dim=-1, keepdim=True)
    if count > MOST_ROUNDS or not torch.compiler.is_compiling():
        return values.topk(count, dim=-1, sorted=False).indices
    places = torch.arange(values.shape[-1], device=values.device)
    largest: list[Tensor] = []
    for _ in range(count):
        largest.append(values.argmax(dim=-1, keepdim=True))
        values = values.masked_fill(places == largest[-1], float("-inf"))
    return torch.cat(largest, dim=-1)


def dispatch(ids: Tensor, experts: int) -> Dispatch:
    """Sort the selections `ids` [T, A] by expert; within an expert tokens keep their order."""
    keys = ids
    if on_gpu(ids) and experts <= 2**15:
        keys = ids.to(torch.int16)  # CUDA sorts byte by byte
    chosen, order = keys.flatten().sort(stable=True)
    numbers = torch.arange(max(len(order), experts), device=ids.device)
    places = torch.empty_like(order).scatter_(0, order, numbers[: len(order)]).view_as(ids)
    ends = torch.searchsorted(chosen, numbers[:experts].to(keys.dtype), right=True, out_int32=True)
    tokens = order if ids.shape[1] == 1 else order // ids.shape[1]
    return Dispatch(order, tokens, places, ends)
