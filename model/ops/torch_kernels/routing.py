"""Routing (Eq. 2) in torch's operations, and the sort of tokens by expert."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dreamer_study.model.ops.gpu import on_gpu
from dreamer_study.model.ops.torch_kernels.norms import rms_norm, rotate
from dreamer_study.model.ops.types import Dispatch, Routing

MOST_ROUNDS = 16
"""The most experts chosen by one maximum after the other; torch's topk finds the last value to be
chosen by 2 of its 32 bits at a time."""


def routing_keys(
    query: Tensor, query_gain: Tensor, keys: Tensor, epsilon: float, code: Tensor | None
) -> list[tuple[Tensor, Tensor]]:
    """Return the query projection, and per depth the keys [E, R] with everything else that the
    logits need.

    A depth code rotates all queries of a depth alike, so the few keys are rotated backwards
    instead, which gives the same logits. The gain of the queries and the 1/sqrt(R) of the logits
    are multiplied into the keys as well.
    """
    keys = rms_norm(keys, torch.ones_like(query_gain), epsilon) * (
        query_gain * len(query_gain) ** -0.5
    )
    rotated = (
        (keys,)
        if code is None
        else rotate(keys.unsqueeze(0), code.unsqueeze(1), back=True).unbind()
    )
    return [(query, each) for each in rotated]


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
    """Choose experts: only the chosen logits pass a gradient on and are kept, beside x in its own
    precision."""

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
        x_gradient, query_gradient = (
            (q_gradient @ query.T).to(x.dtype),
            x.to(q.dtype).T @ q_gradient,
        )
        return x_gradient, query_gradient, logits_gradient.T @ q, None, None, None, None


def _largest(values: Tensor, count: int) -> Tensor:
    """Find the places of the `count` largest values of each row: compiled in one kernel with what
    makes the values."""
    if count == 1:
        return values.argmax(dim=-1, keepdim=True)
    if count > MOST_ROUNDS or not torch.compiler.is_compiling():
        return values.topk(count, dim=-1, sorted=False).indices
    places, found = torch.arange(values.shape[-1], device=values.device), []
    for _ in range(count):
        found.append(values.argmax(dim=-1, keepdim=True))
        values = values.masked_fill(places == found[-1], float("-inf"))
    return torch.cat(found, dim=-1)


def dispatch(ids: Tensor, experts: int) -> Dispatch:
    """Sort the selections `ids` [T, A] by expert; within an expert tokens keep their order."""
    # CUDA sorts byte by byte
    keys = ids.to(torch.int16) if on_gpu(ids) and experts <= 2**15 else ids
    chosen, order = keys.flatten().sort(stable=True)
    numbers = torch.arange(max(len(order), experts), device=ids.device)
    places = torch.empty_like(order).scatter_(0, order, numbers[: len(order)]).view_as(ids)
    ends = torch.searchsorted(chosen, numbers[:experts].to(keys.dtype), right=True, out_int32=True)
    return Dispatch(order, order if ids.shape[1] == 1 else order // ids.shape[1], places, ends)
