"""Whole parts of a layer in native.c, for one CPU core: from the norm to the output in one function each way.

They are what attention.py and experts.py else put together from the functions of kernels.py. Axes as there, and D the
visible depths.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from model.ops.native.functions import WeightsBackward, code_row, dense, route, route_backward, weights_backward
from model.ops.native.library import call, pointers


class NativeAttention(torch.autograd.Function):
    """An attention with mixed projections of x [T, H], from its norm to its output [T, H].

    code [T or 1, ..., K/2, 2]. Along the sequence where there are `starts`
    [T]; else along the depth, behind `entries` of earlier depths: their keys, then their values [T, M, K]. Gives also
    ids [T, 1], key and value [T, M, K], and along the depth the scores [T, N, D]. Merged weights inward [E, H, (N+2M)K]
    and outward [E, NK, H]; shared ones have no E, or are None.
    """

    @staticmethod
    def forward(
        ctx,
        x: Tensor,
        gain: Tensor,
        query: Tensor,
        keys: Tensor,
        bias: Tensor,
        inward: Tensor,
        shared_inward: Tensor | None,
        outward: Tensor,
        shared_outward: Tensor | None,
        query_gain: Tensor,
        key_gain: Tensor,
        code: Tensor,
        starts: Tensor | None,
        epsilon: float,
        N: int,
        M: int,
        *entries: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.weights = WeightsBackward(inward), WeightsBackward(outward)
        x, gain, query, keys, bias, inward = dense(x, gain, query, keys, bias, inward)
        shared_inward, outward, shared_outward = dense(shared_inward, outward, shared_outward)
        query_gain, key_gain, code, *entries = dense(query_gain, key_gain, code, *entries)
        (T, H), (E, R), K, D = x.shape, keys.shape, len(query_gain), len(entries) // 2 + 1
        ctx.sizes, ctx.code_row = (T, H, R, E, N, M, K, D), code_row(code, T, K)
        key, value, y = x.new_empty(T, M, K), x.new_empty(T, M, K), torch.empty_like(x)
        seen = x.new_empty((T, N, D) if starts is None else (T, N))
        kept = x.new_empty(T, 4 + R + (N + M) * (K + 1) + 2 * N * K)  # which native.c lays out
        places, ends = x.new_empty(3, T, dtype=torch.long), x.new_empty(E, dtype=torch.int32)
        assert starts is None or len(starts) == T
        assert all(entry.shape == key.shape and entry.dtype == x.dtype for entry in entries)
        heads = query_gain, key_gain, code
        call(
            "attention_forward",
            *(*ctx.sizes, float(epsilon)),
            *(x, gain, query, keys, bias, inward, outward, *heads, ctx.code_row, starts),
            *_pointers_behind(entries, key, value),
            *(key, value, seen, kept, places, ends, y),
        )
        ctx.save_for_backward(
            *(x, gain, query, keys, inward, outward, shared_inward, shared_outward, *heads, starts),
            *(key, value, seen, kept, places, ends, *entries),
        )
        ids = places[0].unsqueeze(1)
        ctx.mark_non_differentiable(ids, seen, *([] if starts is None else [key, value]))
        return y, ids, key, value, seen

    @staticmethod
    @once_differentiable
    def backward(
        ctx, gradient: Tensor | None, _: None, later_key: Tensor | None, later_value: Tensor | None, __: None
    ) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        x, gain, query, keys, inward, outward, *shared, query_gain, key_gain, code, starts = saved[:12]
        key, value, seen, kept, places, ends, *entries = saved[12:]
        gradient = torch.zeros_like(x) if gradient is None else gradient.contiguous()
        turned, gradients, (of_inward, of_outward) = weights_backward(ctx.weights, (inward, outward))
        x_gradient, of_entries = torch.empty_like(x), x.new_empty(2, ctx.sizes[-1], *key.shape)
        own_gradients = [torch.empty_like(each) for each in (gain, query, keys, query_gain, key_gain)]
        call(
            "attention_backward",
            *ctx.sizes,
            *(x, gain, query, keys, *turned, *shared, query_gain, key_gain, code, ctx.code_row, starts),
            *(*_pointers_behind(entries, key, value), key, value, seen, kept, places, ends),
            *(gradient, *dense(later_key, later_value), *of_entries),
            *(x_gradient, *gradients, *own_gradients),
        )
        *routing, query_gain_gradient, key_gain_gradient = own_gradients
        return (
            *(x_gradient, *routing, None, of_inward, None, of_outward, None),
            *(query_gain_gradient, key_gain_gradient, None, None, None, None, None),
            *(part for parts in of_entries for part in parts[:-1]),
        )


def _pointers_behind(entries: list[Tensor], key: Tensor, value: Tensor) -> tuple[ctypes.Array, ctypes.Array]:
    """To the keys and to the values of earlier depths and this one."""
    D = len(entries) // 2
    return pointers([*entries[:D], key]), pointers([*entries[D:], value])


class NativeExperts(torch.autograd.Function):
    """Norm, routing and SwiGLU experts of x [T, H]: their output [T, H] and ids [T, A].

    Weights inward [E, H, 2F] and outward [E, F, H].
    """

    @staticmethod
    def forward(
        ctx,
        x: Tensor,
        gain: Tensor,
        query: Tensor,
        keys: Tensor,
        bias: Tensor,
        inward: Tensor,
        outward: Tensor,
        active: int,
        epsilon: float,
    ) -> tuple[Tensor, Tensor]:
        ctx.weights = WeightsBackward(inward), WeightsBackward(outward)
        x, gain, query, keys, bias, inward, outward = dense(x, gain, query, keys, bias, inward, outward)
        *routed, weights, order, tokens, ends = route(x, gain, query, keys, bias, active, True, float(epsilon))
        E, F, H = outward.shape
        ctx.sizes = len(x), E, H, F
        y, projected = torch.empty_like(x), x.new_empty(len(order), 2 * F)
        norms, ids = routed[4], routed[-1]
        inputs = x, gain, norms, weights, inward, outward, order, tokens, ends
        call("swiglu_forward", *ctx.sizes, *inputs, projected, y)
        ctx.save_for_backward(*routed, weights, inward, outward, projected, order, tokens, ends)
        ctx.mark_non_differentiable(ids)
        return y, ids

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        routed, (weights, inward, outward, *rest) = saved[:-7], saved[-7:]
        x, gain, norms = routed[0], routed[1], routed[4]
        rows, weights_gradient = torch.empty_like(x), torch.empty_like(weights)
        turned, gradients, passed_on = weights_backward(ctx.weights, (inward, outward))
        gradient = gradient.contiguous()
        inputs = x, gain, norms, weights, *turned, *rest, gradient
        call("swiglu_backward", *ctx.sizes, *inputs, rows, weights_gradient, *gradients)
        routing = route_backward(routed, True, weights_gradient, rows)
        return rows, *routing, None, *passed_on, None, None
