"""Attention along the sequence and the depth (Eq. 1) in torch's operations and fused kernels."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from dreamer_study.model.ops.gpu import capability, on_gpu
from dreamer_study.model.ops.types import Documents, Visible


def attend_sequence(query: Tensor, key: Tensor, value: Tensor, visible: Visible) -> Tensor:
    """Attend by a flash kernel for packed documents where there is one, else with a mask."""
    labelled = isinstance(visible, Documents) and visible.labels is not None
    if labelled and takes_packed(query.dtype, query.device, query.shape[-1]):
        return attend_packed(query, key.flatten(0, 1), value.flatten(0, 1), visible)
    mask = visible.mask(query.dtype)
    query = query.unflatten(0, (len(key), -1)).transpose(1, 2)  # [B, N, S, K]
    key = key.transpose(1, 2)  # [B, M, C, K]
    value = value.transpose(1, 2)
    groups = query.shape[1] // key.shape[1]
    # no fused kernel takes both a mask and shared heads
    if groups > 1 and mask is not None and on_gpu(query):
        # one token per row: heads that share a key are queries of one head, and no key is copied
        if query.shape[2] == 1:
            grouped = query.unflatten(1, (-1, groups)).squeeze(3)
            attended = F.scaled_dot_product_attention(grouped, key, value, mask)
            return attended.flatten(1, 2)
        key = key.repeat_interleave(groups, dim=1)
        value = value.repeat_interleave(groups, dim=1)
    attended = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return attended.transpose(1, 2).flatten(0, 1)


def takes_packed(dtype: torch.dtype, device: torch.device, head_size: int) -> bool:
    """Tell whether `attend_packed` takes such tensors."""
    fits = dtype in (torch.bfloat16, torch.float16) and head_size % 8 == 0 and head_size <= 256
    return fits and on_gpu(device) and capability(device) >= (8, 0)  # A100 or newer


def attend_packed(query: Tensor, key: Tensor, value: Tensor, documents: Documents) -> Tensor:
    """Attend with the documents as the batch: query [T, N, K], key and value [T, M, K].

    With a mask torch has no flash kernel, and none at all that shares key heads: it would fall back
    to plain products with scores of [B, N, S, S].
    """
    attention, options = _packed_kernel()
    bounds = documents.bounds
    longest = documents.longest
    return attention(query, key, value, bounds, bounds, longest, longest, **options)


@cache
def _packed_kernel():
    """Return the kernel, with its options for a causal mask and shared key heads."""
    from torch.nn.attention.varlen import varlen_attn

    # their names vary with the version of torch
    parameters = inspect.signature(varlen_attn).parameters
    options: dict[str, object] = {}
    if "window_size" in parameters:
        options["window_size"] = (-1, 0)  # all keys before, none behind
    else:
        options["is_causal"] = True
    if "enable_gqa" in parameters:
        options["enable_gqa"] = True
    return varlen_attn, options


def attend_depth(
    query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Attend along the depth without copying or concatenating keys and values.

    So memory for the backward pass grows with the depth, not with its square.
    """
    T, N, K = query.shape
    M = keys[0].shape[1]
    attended, scores = _AttendDepth.apply(query.reshape(T, M, N // M, K), *keys, *values)
    return attended.view(T, N, K), scores.view(T, N, len(keys))


class _AttendDepth(torch.autograd.Function):
    """Attend by query [T, M, G, K] with G = N / M queries per key, one depth after the other.

    Backward, with p the scores and g the gradient of the output:

        dp = g v^T;  ds = p * (dp - sum(p * dp)) / sqrt(K);  dq = ds k;  dk = ds^T q;  dv = p^T g
    """

    @staticmethod
    def forward(ctx, query: Tensor, *entries: Tensor) -> tuple[Tensor, Tensor]:
        depths = len(entries) // 2
        keys, values = entries[:depths], entries[depths:]
        scores = _stacked_products(query, keys).mul_(query.shape[-1] ** -0.5).softmax(dim=-1)
        attended = _weighted_sum(scores, values)
        ctx.save_for_backward(query, scores, *entries)
        ctx.mark_non_differentiable(scores)
        return attended.to(query.dtype), scores

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        query, scores, *entries = ctx.saved_tensors
        depths = len(entries) // 2
        keys, values = entries[:depths], entries[depths:]
        through = _stacked_products(gradient, values)  # dp
        mean = torch.linalg.vecdot(scores, through).unsqueeze(-1)
        through = scores * (through - mean) * query.shape[-1] ** -0.5  # ds
        key_gradients = [_sum_queries(part.unsqueeze(-1) * query) for part in through.unbind(-1)]
        value_gradients = [
            _sum_queries(part.unsqueeze(-1) * gradient) for part in scores.unbind(-1)
        ]
        gradients = (_weighted_sum(through, keys), *key_gradients, *value_gradients)
        return tuple(part.to(query.dtype) for part in gradients)


def _stacked_products(query: Tensor, entries: list[Tensor]) -> Tensor:
    """Multiply query [T, M, G, K] with each entry [T, M, K]: [T, M, G, depths]."""
    dtype = torch.promote_types(query.dtype, torch.float32)  # of the sums
    products = [(query * entry.unsqueeze(2)).sum(dim=-1, dtype=dtype) for entry in entries]
    return torch.stack(products, dim=-1)


def _weighted_sum(weights: Tensor, entries: list[Tensor]) -> Tensor:
    """Sum over depths of weights [T, M, G, depths] times entries [T, M, K]: [T, M, G, K]."""
    total = weights[..., :1] * entries[0].unsqueeze(2)
    for depth, entry in enumerate(entries[1:], start=1):
        total.addcmul_(weights[..., depth : depth + 1], entry.unsqueeze(2))
    return total


def _sum_queries(x: Tensor) -> Tensor:
    """Sum over the queries that share a key: [T, M, G, K] -> [T, M, K]."""
    return x.squeeze(2) if x.shape[2] == 1 else x.sum(dim=2)
