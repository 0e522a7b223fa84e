"""The functions of kernels.py with their gradients from native.c: same names, arguments and results, for one CPU core.

What each computes is said in kernels.py; here are only the calls, and what is kept for the backward pass. Axes as
there.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from model.native import call, pointers


def _dense(*tensors: Tensor | None) -> list[Tensor | None]:
    return [tensor if tensor is None else tensor.contiguous() for tensor in tensors]


class NativeRMSNorm(torch.autograd.Function):
    """x [..., H] and gain [H] -> [..., H]."""

    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        x, gain = _dense(x, gain)
        H = x.shape[-1]
        y, scales = torch.empty_like(x), x.new_empty(x.numel() // H)
        call("norm_forward", len(scales), H, x, gain, float(epsilon), y, scales)
        ctx.save_for_backward(x, gain, scales)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, gain, scales = ctx.saved_tensors
        x_gradient, gain_gradient = torch.empty_like(x), torch.empty_like(gain)
        sizes = len(scales), len(gain)
        call("norm_backward", *sizes, x, gain, scales, gradient.contiguous(), x_gradient, gain_gradient)
        return x_gradient, gain_gradient, None


class NativeHeads(torch.autograd.Function):
    """projected [T, (N+2M)K], gains [K], code [T or 1, ..., K/2, 2] -> query [T, N, K], key and value [T, M, K]."""

    @staticmethod
    def forward(
        ctx, projected: Tensor, query_gain: Tensor, key_gain: Tensor, code: Tensor, epsilon: float, N: int, M: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        projected, query_gain, key_gain, code = _dense(projected, query_gain, key_gain, code)
        T, K = len(projected), len(query_gain)
        query, key, value = (projected.new_empty(T, heads, K) for heads in (N, M, M))
        scales = projected.new_empty(T, N + M)
        ctx.sizes = T, N, M, K
        ctx.code_row = 0 if code.numel() == K else K
        assert code.numel() in (K, T * K)
        inputs = projected, query_gain, key_gain, code
        call("heads_forward", *ctx.sizes, *inputs, ctx.code_row, float(epsilon), query, key, value, scales)
        ctx.save_for_backward(*inputs, scales)
        return query, key, value

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        projected, query_gain, key_gain, code, scales = ctx.saved_tensors
        outputs = torch.empty_like(projected), torch.empty_like(query_gain), torch.empty_like(key_gain)
        inputs = projected, query_gain, key_gain, code, ctx.code_row, scales
        call("heads_backward", *ctx.sizes, *inputs, *_dense(*gradients), *outputs)
        return *outputs, None, None, None, None


class NativeRoute(torch.autograd.Function):
    """weights [T, A] and ids [T, A] for x [T, H]."""

    @staticmethod
    def forward(
        ctx, x: Tensor, query: Tensor, keys: Tensor, bias: Tensor, active: int, normalised: bool, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        x, query, keys, bias = _dense(x, query, keys, bias)
        (T, H), (E, R) = x.shape, keys.shape
        q, scales, chosen = x.new_empty(T, R), x.new_empty(T), x.new_empty(T, active)
        weights, ids = torch.empty_like(chosen), torch.empty_like(chosen, dtype=torch.long)
        ctx.sizes = T, H, R, E, active, int(normalised)
        call("route_forward", *ctx.sizes, float(epsilon), x, query, keys, bias, q, scales, chosen, weights, ids)
        ctx.save_for_backward(x, query, keys, q, scales, chosen, ids)
        ctx.mark_non_differentiable(ids)
        return weights, ids

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        outputs = [torch.empty_like(each) for each in saved[:3]]
        call("route_backward", *ctx.sizes, *saved, gradient.contiguous(), *outputs)
        return *outputs, None, None, None, None


def dispatch(ids: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """order, tokens, places and ends of ids [T, A]."""
    ids = ids.contiguous()
    order, places = ids.new_empty(ids.numel()), torch.empty_like(ids)
    tokens, ends = torch.empty_like(order), ids.new_empty(experts, dtype=torch.int32)
    call("dispatch", ids.numel(), ids.shape[1], experts, ids, order, tokens, places, ends)
    return order, tokens, places, ends


class NativeMixedProduct(torch.autograd.Function):
    """x [T, I], scores [T, 1], merged [E, I, O], shared [I, O] or None; tokens [T] and ends [E] of a dispatch."""

    @staticmethod
    def forward(
        ctx, x: Tensor, scores: Tensor, merged: Tensor, shared: Tensor | None, tokens: Tensor, ends: Tensor
    ) -> Tensor:
        x, scores, merged, shared = _dense(x, scores, merged, shared)
        ctx.sizes = merged.shape
        y = x.new_empty(len(x), merged.shape[2])
        call("mixed_forward", *ctx.sizes, x, scores, merged, tokens, ends, y)
        ctx.save_for_backward(x, scores, merged, shared, tokens, ends)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        outputs = [torch.empty_like(each) for each in saved[:3]]
        call("mixed_backward", *ctx.sizes, *saved, gradient.contiguous(), *outputs)
        return *outputs, None, None, None


class NativeSwiGLUExperts(torch.autograd.Function):
    """x [T, H], weights [T, A], inward [E, H, 2F], outward [E, F, H]; order, tokens and ends of a dispatch."""

    @staticmethod
    def forward(
        ctx, x: Tensor, weights: Tensor, inward: Tensor, outward: Tensor, order: Tensor, tokens: Tensor, ends: Tensor
    ) -> Tensor:
        x, weights, inward, outward = _dense(x, weights, inward, outward)
        E, F, H = outward.shape
        ctx.sizes = len(x), E, H, F
        y, projected = torch.empty_like(x), x.new_empty(len(order), 2 * F)
        call("swiglu_forward", *ctx.sizes, x, weights, inward, outward, order, tokens, ends, projected, y)
        ctx.save_for_backward(x, weights, inward, outward, projected, order, tokens, ends)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        outputs = [torch.empty_like(each) for each in saved[:4]]
        call("swiglu_backward", *ctx.sizes, *saved, gradient.contiguous(), *outputs)
        return *outputs, None, None, None


class NativeAttendSequence(torch.autograd.Function):
    """query [T, N, K], key and value [T, M, K], starts [T] -> [T, N, K]."""

    @staticmethod
    def forward(ctx, query: Tensor, key: Tensor, value: Tensor, starts: Tensor) -> Tensor:
        query, key, value = _dense(query, key, value)
        T, N, K = query.shape
        assert len(key) == len(value) == len(starts) == T
        ctx.sizes = T, N, key.shape[1], K
        attended, sums = torch.empty_like(query), query.new_empty(T, N)
        call("attend_forward", *ctx.sizes, query, key, value, starts, attended, sums)
        ctx.save_for_backward(query, key, value, starts, sums)
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        outputs = [torch.empty_like(each) for each in saved[:3]]
        call("attend_backward", *ctx.sizes, *saved, gradient.contiguous(), *outputs)
        return *outputs, None


class NativeAttendDepth(torch.autograd.Function):
    """query [T, N, K] and D keys and D values [T, M, K] -> attended [T, N, K] and scores [T, N, D]."""

    @staticmethod
    def forward(ctx, query: Tensor, *entries: Tensor) -> tuple[Tensor, Tensor]:
        query, *entries = _dense(query, *entries)
        D = len(entries) // 2
        ctx.sizes = *query.shape[:2], entries[0].shape[1], query.shape[2], D
        attended, scores = torch.empty_like(query), query.new_empty(*query.shape[:2], D)
        call("depth_forward", *ctx.sizes, query, pointers(entries[:D]), pointers(entries[D:]), attended, scores)
        ctx.save_for_backward(query, scores, *entries)
        ctx.mark_non_differentiable(scores)
        return attended, scores

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        query, scores, *entries = ctx.saved_tensors
        D = scores.shape[-1]
        query_gradient = torch.empty_like(query)
        gradients = query.new_empty(2, D, *entries[0].shape)
        keys, values = pointers(entries[:D]), pointers(entries[D:])  # which the entries outlive
        gradient = gradient.contiguous()
        call("depth_backward", *ctx.sizes, query, keys, values, scores, gradient, query_gradient, *gradients)
        return query_gradient, *gradients.flatten(0, 1).unbind()
