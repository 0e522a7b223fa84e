"""Whole attentions in C with their gradients, from the norm to the output.

There is one call for each direction. `NativeAttention` is a sequence or depth attention with mixed
projections, `NativeExperts` an expert attention. Axes as in functions.py, and F expert size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dreamer_study.model.ops.native.functions import (
    SavedRouting,
    contiguous,
    empty_like,
    rotation_rows,
)
from dreamer_study.model.ops.native.library import call
from dreamer_study.model.ops.native.shared_gradient import gradient_of, transpose


class Given(NamedTuple):
    """What an attention is given, in the order of the C function `attention_backward`."""

    x: Tensor
    gain: Tensor
    query: Tensor
    keys: Tensor
    inward: Tensor
    outward: Tensor
    shared_inward: Tensor | None
    shared_outward: Tensor | None
    query_gain: Tensor
    key_gain: Tensor
    code: Tensor
    starts: Tensor | None


class SavedHeads(NamedTuple):
    """What the gradient of an attention needs of its heads, in the order of the C functions."""

    projected: Tensor  # [T, (N + M) * K]: queries and keys before rotation and norm
    scales: Tensor  # [T, N + M]
    query: Tensor  # [T, N, K]
    attended: Tensor  # [T, N, K]
    scores: Tensor  # [T, N, D] along the depth, log-sum-exps [T, N, 1] along the sequence

    @classmethod
    def empty(cls, x: Tensor, N: int, M: int, K: int, D: int) -> SavedHeads:
        """Allocate the tensors for x [T, H]."""
        shapes = ((N + M) * K,), (N + M,), (N, K), (N, K), (N, D)
        return cls(*(x.new_empty(len(x), *shape) for shape in shapes))


Fields = TypeVar("Fields", bound=NamedTuple)


def take(kind: type[Fields], tensors: Iterator[Tensor]) -> Fields:
    """Fill the fields of a NamedTuple with the next tensors."""
    return kind(*islice(tensors, len(kind._fields)))


def with_earlier(
    key: Tensor, value: Tensor, earlier: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """List the keys and the values of all visible depths, the own depth's last.

    `earlier` are keys, then values.
    """
    half = len(earlier) // 2
    return [*earlier[:half], key], [*earlier[half:], value]


class NativeAttention(torch.autograd.Function):
    """Compute an attention with mixed projections of x [T, H].

    Returns the output [T, H], ids [T, 1], key, value and scores. Along the sequence where there are
    `starts` [T]; else along the depth, over `earlier` keys, then values, [T, M, K] each, and the
    own depth's: then `scores` are [T, N, D]. Merged weights are inward [E, H, (N+2M)K] and outward
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
        x, gain, query, keys, bias, inward, outward = contiguous(
            x, gain, query, keys, bias, inward, outward
        )
        shared_inward, shared_outward, starts, *earlier = contiguous(
            shared_inward, shared_outward, starts, *earlier
        )
        query_gain, key_gain = contiguous(query_gain, key_gain)
        code = rotation_rows(code, T)
        routing = SavedRouting.empty(x, keys, 1, norm=True)
        heads = SavedHeads.empty(x, N, M, K, D)
        key = x.new_empty(T, M, K)
        value = x.new_empty(T, M, K)
        output = torch.empty_like(x)
        weights = x, gain, query, keys, bias, inward, outward, query_gain, key_gain
        call(
            "attention_forward",
            epsilon,
            *weights,
            code,
            starts,
            *with_earlier(key, value, earlier),
            *routing,
            *heads,
            output,
        )
        given = Given(
            x=x,
            gain=gain,
            query=query,
            keys=keys,
            inward=inward,
            outward=outward,
            shared_inward=shared_inward,
            shared_outward=shared_outward,
            query_gain=query_gain,
            key_gain=key_gain,
            code=code,
            starts=starts,
        )
        ctx.save_for_backward(*given, *routing, *heads, key, value, *earlier)
        without_gradient = [routing.ids, heads.scores]
        if starts is not None:  # along the sequence no later depth uses key and value
            without_gradient += [key, value]
        ctx.mark_non_differentiable(*without_gradient)
        return output, routing.ids, key, value, heads.scores

    @staticmethod
    @once_differentiable
    def backward(
        ctx,
        gradient: Tensor | None,
        _: None,
        later_key: Tensor | None,
        later_value: Tensor | None,
        __: None,
    ) -> tuple[Tensor | None, ...]:
        saved = iter(ctx.saved_tensors)
        given = take(Given, saved)
        routing = take(SavedRouting, saved)
        heads = take(SavedHeads, saved)
        key, value, *earlier = saved
        gradient = torch.zeros_like(given.x) if gradient is None else gradient.contiguous()
        keys_gradients, values_gradients = key.new_empty(2, len(earlier) // 2 + 1, *key.shape)
        x_gradient, *router_gradients = empty_like(given.x, given.gain, given.query, given.keys)
        head_gradients = empty_like(given.query_gain, given.key_gain)
        inward_sum, inward_gradient = gradient_of(given.inward)
        outward_sum, outward_gradient = gradient_of(given.outward)
        call(
            "attention_backward",
            *given._replace(inward=transpose(given.inward), outward=transpose(given.outward)),
            *with_earlier(key, value, earlier),
            *routing[:-1],
            *heads,
            gradient,
            *contiguous(later_key, later_value),
            keys_gradients,
            values_gradients,
            x_gradient,
            inward_sum,
            outward_sum,
            *router_gradients,
            *head_gradients,
        )
        return (
            x_gradient,
            *router_gradients,  # of gain, query and keys
            None,  # bias
            inward_gradient,
            None,  # shared inward
            outward_gradient,
            None,  # shared outward
            *head_gradients,  # of the gains of queries and keys
            None,  # code
            None,  # starts
            None,  # epsilon
            None,  # N
            None,  # M
            *keys_gradients[:-1],  # of earlier depths; the own depth's are in `x_gradient`
            *values_gradients[:-1],
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
        x, gain, query, keys, bias, inward, outward = contiguous(
            x, gain, query, keys, bias, inward, outward
        )
        routing = SavedRouting.empty(x, keys, active, norm=True)
        call("route_forward", True, epsilon, x, gain, query, keys, bias, *routing)
        output = torch.empty_like(x)
        projected = x.new_empty(len(routing.order), inward.shape[2])
        given = x, gain, routing.norms, routing.scores, inward, outward
        call("swiglu_forward", *given, *routing.dispatch, projected, output)
        ctx.save_for_backward(x, gain, query, keys, inward, outward, projected, *routing)
        ctx.mark_non_differentiable(routing.ids)
        return output, routing.ids

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, query, keys, inward, outward, projected, *saved = ctx.saved_tensors
        routing = SavedRouting(*saved)
        x_gradient, scores_gradient, *gradients = empty_like(x, routing.scores, gain, query, keys)
        inward_sum, inward_gradient = gradient_of(inward)
        outward_sum, outward_gradient = gradient_of(outward)
        given = x, gain, routing.norms, routing.scores, transpose(inward), transpose(outward)
        outputs = x_gradient, scores_gradient, inward_sum, outward_sum
        call(
            "swiglu_backward", *given, *routing.dispatch, projected, gradient.contiguous(), *outputs
        )
        call(
            "route_backward",
            True,
            x,
            gain,
            query,
            keys,
            *routing.choice,
            scores_gradient,
            x_gradient,
            *gradients,
        )
        return x_gradient, *gradients, None, inward_gradient, outward_gradient, None, None
