"""Whole attentions in C with their gradients, from the norm to the output: one call for each direction.

`NativeAttention` is a sequence or depth attention with mixed projections, `NativeExperts` an expert attention. Axes as
in functions.py, and F expert size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from model.ops.native.functions import SavedRouting, contiguous, empty_like, rotation_rows
from model.ops.native.library import call
from model.ops.native.shared_gradient import gradient_of, transpose


class NativeAttention(torch.autograd.Function):
    """Compute an attention with mixed projections of x [T, H]: output [T, H], ids [T, 1], key, value and scores.

    Along the sequence where there are `starts` [T]; else along the depth, over `earlier` keys, then values, [T, M, K]
    each, and the own depth's: then `scores` are [T, N, D]. Merged weights inward [E, H, (N+2M)K] and outward
    [E, NK, H]; shared weights have no E, or are None. The rotary code is [T or 1, ..., K/2, 2].
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
        *earlier: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        T, K, D = len(x), len(query_gain), len(earlier) // 2 + 1
        x, gain, query, keys, bias, *weights = contiguous(x, gain, query, keys, bias, inward, outward)
        heads = *contiguous(query_gain, key_gain), rotation_rows(code, T), *contiguous(starts)
        earlier, routing = contiguous(*earlier), SavedRouting.empty(x, keys, 1, norm=True)
        projected, head_scales, head_query, key, value, attended, scores = (
            x.new_empty(T, *shape) for shape in (((N + M) * K,), (N + M,), (N, K), (M, K), (M, K), (N, K), (N, D))
        )
        output, intermediate = torch.empty_like(x), (projected, head_scales, head_query, attended, scores)
        depths = [*earlier[: D - 1], key], [*earlier[D - 1 :], value]
        inputs = x, gain, query, keys, bias, *weights, *heads, *depths
        call("attention_forward", epsilon, *inputs, *routing, *intermediate, output)
        shared = contiguous(shared_inward, shared_outward)
        ctx.save_for_backward(
            x, gain, query, keys, *weights, *shared, *heads, *routing, *intermediate, key, value, *earlier
        )
        ctx.mark_non_differentiable(routing.ids, scores, *([] if starts is None else [key, value]))
        return output, routing.ids, key, value, scores

    @staticmethod
    @once_differentiable
    def backward(
        ctx, gradient: Tensor | None, _: None, later_key: Tensor | None, later_value: Tensor | None, __: None
    ) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        x, gain, query, keys, inward, outward, *shared_and_heads = saved[:12]
        routing, intermediate, (key, value, *earlier) = saved[12:21], saved[21:26], saved[26:]
        D = len(earlier) // 2 + 1
        depths = [*earlier[: D - 1], key], [*earlier[D - 1 :], value]
        gradient = torch.zeros_like(x) if gradient is None else gradient.contiguous()
        depth_gradients = x.new_empty(2, D, *key.shape)
        x_gradient, *gradients = empty_like(x, gain, query, keys, *shared_and_heads[2:4])
        (inward_sum, inward_gradient), (outward_sum, outward_gradient) = gradient_of(inward), gradient_of(outward)
        call(
            "attention_backward",
            *(x, gain, query, keys, transpose(inward), transpose(outward), *shared_and_heads, *depths),
            *(*routing[:-1], *intermediate, gradient, *contiguous(later_key, later_value)),
            *(*depth_gradients, x_gradient, inward_sum, outward_sum, *gradients),
        )
        return (
            *(x_gradient, *gradients[:3], None, inward_gradient, None, outward_gradient, None, *gradients[3:]),
            *(None, None, None, None, None),
            *(part for parts in depth_gradients for part in parts[:-1]),
        )


class NativeExperts(torch.autograd.Function):
    """Compute the norm, routing and SwiGLU experts of x [T, H]: output [T, H] and ids [T, A].

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
        x, gain, query, keys, bias, inward, outward = contiguous(x, gain, query, keys, bias, inward, outward)
        routing = SavedRouting.empty(x, keys, active, norm=True)
        call("route_forward", True, epsilon, x, gain, query, keys, bias, *routing)
        output, projected = torch.empty_like(x), x.new_empty(len(routing.order), inward.shape[2])
        dispatch = routing[6:]
        call("swiglu_forward", x, gain, routing.norms, routing.scores, inward, outward, *dispatch, projected, output)
        ctx.save_for_backward(x, gain, query, keys, inward, outward, projected, *routing)
        ctx.mark_non_differentiable(routing.ids)
        return output, routing.ids

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, query, keys, inward, outward, projected, *routing = ctx.saved_tensors
        routing = SavedRouting(*routing)
        x_gradient, scores_gradient, *gradients = empty_like(x, routing.scores, gain, query, keys)
        (inward_sum, inward_gradient), (outward_sum, outward_gradient) = gradient_of(inward), gradient_of(outward)
        weights = x, gain, routing.norms, routing.scores, transpose(inward), transpose(outward)
        outputs = x_gradient, scores_gradient, inward_sum, outward_sum
        call("swiglu_backward", *weights, *routing[6:], projected, gradient.contiguous(), *outputs)
        inputs = x, gain, query, keys, *routing[:4], routing.ids, scores_gradient
        call("route_backward", True, *inputs, x_gradient, *gradients)
        return x_gradient, *gradients, None, inward_gradient, outward_gradient, None, None
