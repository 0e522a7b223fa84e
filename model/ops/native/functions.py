"""Single operations in C with their gradients, as autograd functions.

model/ops/reference.py states the mathematics. Axes: T tokens, H hidden, E experts, A active
experts, R routing size, N and M query and key/value heads, K head size, I and O inputs and outputs,
L depths of a code, D visible depths.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dreamer_study.model.ops.native.library import call
from dreamer_study.model.ops.native.shared_gradient import gradient_of, transpose


def contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    """Copy the tensors whose memory is not contiguous; None stays None."""
    return [tensor if tensor is None else tensor.contiguous() for tensor in tensors]


def empty_like(*tensors: Tensor | None) -> list[Tensor | None]:
    """Allocate a tensor like each, without values; None stays None."""
    return [tensor if tensor is None else torch.empty_like(tensor) for tensor in tensors]


class NativeRMSNorm(torch.autograd.Function):
    """Normalise x [..., H] and multiply by the gain [H]."""

    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        shape = x.shape
        x = x.reshape(-1, shape[-1]).contiguous()
        gain = gain.contiguous()
        y = torch.empty_like(x)
        scales = x.new_empty(len(x))
        call("norm_forward", epsilon, x, gain, y, scales)
        ctx.save_for_backward(x, gain, scales)
        return y.view(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, gain, scales = ctx.saved_tensors
        x_gradient, gain_gradient = empty_like(x, gain)
        y_gradient = gradient.reshape(x.shape).contiguous()
        call("norm_backward", x, gain, scales, y_gradient, x_gradient, gain_gradient)
        return x_gradient.view(gradient.shape), gain_gradient, None


def rotation_rows(code: Tensor, tokens: int) -> Tensor:
    """Flatten a rotary code [T or 1, ..., K/2, 2] to rows [T or 1, K].

    Raises ValueError for another number of rows.
    """
    rows = code.flatten(-2).reshape(-1, 2 * code.shape[-2]).contiguous()
    if len(rows) not in (1, tokens):
        raise ValueError(
            f"the rotary code {list(code.shape)} has {len(rows)} rows, but must have 1 or {tokens}"
        )
    return rows


class NativeHeads(torch.autograd.Function):
    """Split projections [T, (N+2M)K] into heads; rotate and normalise queries and keys.

    Queries become [T, N, K], keys and values [T, M, K].
    """

    @staticmethod
    def forward(
        ctx,
        projected: Tensor,
        query_gain: Tensor,
        key_gain: Tensor,
        code: Tensor,
        epsilon: float,
        N: int,
        M: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        T, K = len(projected), len(query_gain)
        inputs = [*contiguous(projected, query_gain, key_gain), rotation_rows(code, T)]
        heads = [projected.new_empty(T, count, K) for count in (N, M, M)]
        scales = projected.new_empty(T, N + M)
        call("heads_forward", epsilon, *inputs, *heads, scales)
        ctx.save_for_backward(*inputs, scales)
        return tuple(heads)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        outputs = empty_like(*saved[:3])
        call("heads_backward", *saved, *contiguous(*gradients), *outputs)
        return *outputs, None, None, None, None


class NativeKeys(torch.autograd.Function):
    """Prepare routing keys [E, R] for each depth of a code [L, R/2, 2], or once without a code.

    The result are L tensors [E, R].
    """

    @staticmethod
    def forward(
        ctx, keys: Tensor, gain: Tensor, code: Tensor | None, epsilon: float
    ) -> tuple[Tensor, ...]:
        keys, gain, code = contiguous(keys, gain, None if code is None else code.flatten(1))
        depths = 1 if code is None else len(code)
        prepared = keys.new_empty(depths, *keys.shape)
        scales = keys.new_empty(len(keys))
        call("keys_forward", epsilon, keys, gain, code, prepared, scales)
        ctx.save_for_backward(keys, gain, code, scales)
        return prepared.unbind()

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        outputs = empty_like(*saved[:2])
        call("keys_backward", *saved, contiguous(*gradients), *outputs)
        return *outputs, None, None


class SavedRouting(NamedTuple):
    """What a routing returns and its gradient needs, in the order of C's `route_forward`."""

    norms: Tensor | None  # [T]: scales of x, where its norm is computed with the routing
    queries: Tensor  # [T, R]
    query_scales: Tensor  # [T]
    logits: Tensor  # [T, A]
    scores: Tensor  # [T, A]
    ids: Tensor  # [T, A]
    tokens: Tensor  # [T * A]
    ends: Tensor  # [E]
    order: Tensor  # [T * A]

    @property
    def choice(self) -> tuple[Tensor | None, ...]:
        """Return what `route_backward` takes."""
        return self.norms, self.queries, self.query_scales, self.logits, self.ids

    @property
    def dispatch(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the token-expert pairs sorted by expert, as the functions of experts take them."""
        return self.tokens, self.ends, self.order

    @classmethod
    def empty(cls, x: Tensor, keys: Tensor, active: int, *, norm: bool) -> SavedRouting:
        """Allocate the tensors for x [T, H]; with `norm` also those of its norm."""
        T, A = len(x), active
        E, R = keys.shape
        return cls(
            norms=x.new_empty(T) if norm else None,
            queries=x.new_empty(T, R),
            query_scales=x.new_empty(T),
            logits=x.new_empty(T, A),
            scores=x.new_empty(T, A),
            ids=x.new_empty(T, A, dtype=torch.long),
            tokens=x.new_empty(T * A, dtype=torch.long),
            ends=x.new_empty(E, dtype=torch.int32),
            order=x.new_empty(T * A, dtype=torch.long),
        )


class NativeRoute(torch.autograd.Function):
    """Choose A experts for each row of x [T, H]: scores [T, A] and ids [T, A]."""

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
        x, query, keys, bias = contiguous(x, query, keys, bias)
        routing = SavedRouting.empty(x, keys, active, norm=False)
        call("route_forward", normalised, epsilon, x, None, query, keys, bias, *routing)
        ctx.normalised = normalised
        ctx.save_for_backward(x, query, keys, *routing)
        ctx.mark_non_differentiable(routing.ids)
        return routing.scores, routing.ids

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, query, keys, *saved = ctx.saved_tensors
        x_gradient = torch.zeros_like(x)
        gradients = empty_like(query, keys)
        inputs = x, None, query, keys, *SavedRouting(*saved).choice, gradient.contiguous()
        call("route_backward", ctx.normalised, *inputs, x_gradient, None, *gradients)
        return x_gradient, *gradients, None, None, None, None


class NativeMixedProduct(torch.autograd.Function):
    """Multiply x [T, I] by each token's expert: [T, O].

    Scores are [T, 1], merged weights [E, I, O], shared ones [I, O] or None. `tokens` [T] and `ends`
    [E] are the dispatch.
    """

    @staticmethod
    def forward(
        ctx,
        x: Tensor,
        scores: Tensor,
        merged: Tensor,
        shared: Tensor | None,
        tokens: Tensor,
        ends: Tensor,
    ) -> Tensor:
        x, scores, merged, shared = contiguous(x, scores, merged, shared)
        y = x.new_empty(len(x), merged.shape[2])
        call("mixed_forward", x, scores, merged, tokens, ends, y)
        ctx.save_for_backward(x, scores, merged, shared, tokens, ends)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, scores, merged, *others = ctx.saved_tensors
        outputs = empty_like(x, scores)
        merged_gradient, returned = gradient_of(merged)
        inputs = x, scores, transpose(merged), *others, gradient.contiguous()
        call("mixed_backward", *inputs, *outputs, merged_gradient)
        return *outputs, returned, None, None, None


class NativeAttendSequence(torch.autograd.Function):
    """Attend causally within documents: query [T, N, K], key and value [T, M, K] -> [T, N, K].

    `starts` [T] are the first tokens of the tokens' documents.
    """

    @staticmethod
    def forward(ctx, query: Tensor, key: Tensor, value: Tensor, starts: Tensor) -> Tensor:
        inputs = contiguous(query, key, value, starts)
        attended = torch.empty_like(inputs[0])
        sums = query.new_empty(query.shape[:2])
        call("attend_forward", *inputs, attended, sums)
        ctx.save_for_backward(*inputs, sums)
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        outputs = empty_like(*saved[:3])
        call("attend_backward", *saved, gradient.contiguous(), *outputs)
        return *outputs, None


class NativeAttendDepth(torch.autograd.Function):
    """Attend over depths: query [T, N, K], D keys, then D values [T, M, K].

    Returns the attended values [T, N, K] and the scores [T, N, D].
    """

    @staticmethod
    def forward(ctx, query: Tensor, *keys_and_values: Tensor) -> tuple[Tensor, Tensor]:
        query, *keys_and_values = contiguous(query, *keys_and_values)
        D = len(keys_and_values) // 2
        attended = torch.empty_like(query)
        scores = query.new_empty(*query.shape[:2], D)
        call("depth_forward", query, keys_and_values[:D], keys_and_values[D:], attended, scores)
        ctx.save_for_backward(query, scores, *keys_and_values)
        ctx.mark_non_differentiable(scores)
        return attended, scores

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        query, scores, *keys_and_values = ctx.saved_tensors
        D = scores.shape[-1]
        query_gradient = torch.empty_like(query)
        key_gradients, value_gradients = query.new_empty(2, D, *keys_and_values[0].shape)
        inputs = query, keys_and_values[:D], keys_and_values[D:], scores, gradient.contiguous()
        call("depth_backward", *inputs, query_gradient, key_gradients, value_gradients)
        return query_gradient, *key_gradients, *value_gradients
