"""What native.c computes, with its gradients, for one CPU core: functions of kernels.py. What each is said there; here
are only the calls, and what is kept for the backward pass. Axes as in kernels.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from model.ops.native.library import call, pointers


def dense(*tensors: Tensor | None) -> list[Tensor | None]:
    return [tensor if tensor is None else tensor.contiguous() for tensor in tensors]


class NativeRMSNorm(torch.autograd.Function):
    """x [..., H] and gain [H] -> [..., H]."""

    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        x, gain = dense(x, gain)
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
        projected, query_gain, key_gain, code = dense(projected, query_gain, key_gain, code)
        T, K = len(projected), len(query_gain)
        heads, scales = [projected.new_empty(T, count, K) for count in (N, M, M)], projected.new_empty(T, N + M)
        ctx.sizes, ctx.code_row = (T, N, M, K), code_row(code, T, K)
        inputs = projected, query_gain, key_gain, code
        call("heads_forward", *ctx.sizes, float(epsilon), *inputs, ctx.code_row, *heads, scales)
        ctx.save_for_backward(*inputs, scales)
        return tuple(heads)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, scales = ctx.saved_tensors
        outputs = [torch.empty_like(each) for each in inputs[:3]]
        call("heads_backward", *ctx.sizes, *inputs, ctx.code_row, scales, *dense(*gradients), *outputs)
        return *outputs, None, None, None, None


def code_row(code: Tensor, T: int, K: int) -> int:
    """How far the codes of consecutive tokens lie apart: not at all where there is one for all."""
    assert code.numel() in (K, T * K)
    return 0 if code.numel() == K else K


class NativeKeys(torch.autograd.Function):
    """keys [E, R], gain [R] and code [L, R/2, 2] -> L prepared keys [E, R]; without a code one."""

    @staticmethod
    def forward(ctx, keys: Tensor, gain: Tensor, code: Tensor | None, epsilon: float) -> tuple[Tensor, ...]:
        keys, gain, code = dense(keys, gain, code)
        ctx.sizes = 1 if code is None else len(code), *keys.shape
        prepared, scales = keys.new_empty(ctx.sizes), keys.new_empty(len(keys))
        call("keys_forward", *ctx.sizes, float(epsilon), keys, gain, code, prepared, scales)
        ctx.save_for_backward(keys, gain, code, scales)
        return prepared.unbind()

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved, gradients = ctx.saved_tensors, dense(*gradients)
        outputs = [torch.empty_like(each) for each in saved[:2]]
        call("keys_backward", *ctx.sizes, *saved, pointers(gradients), *outputs)
        return *outputs, None, None


class NativeRoute(torch.autograd.Function):
    """weights [T, A] and ids [T, A] for x [T, H]."""

    @staticmethod
    def forward(
        ctx, x: Tensor, query: Tensor, keys: Tensor, bias: Tensor, active: int, normalised: bool, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        x, query, keys, bias = dense(x, query, keys, bias)
        *routed, weights, _, _, _ = route(x, None, query, keys, bias, active, normalised, float(epsilon))
        ctx.normalised = normalised
        ctx.save_for_backward(*routed)
        ctx.mark_non_differentiable(routed[-1])
        return weights, routed[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        routed = ctx.saved_tensors
        x_gradient = torch.zeros_like(routed[0])
        _, *others = route_backward(routed, ctx.normalised, gradient.contiguous(), x_gradient)
        return x_gradient, *others, None, None, None, None


def route(
    x: Tensor,
    gain: Tensor | None,
    query: Tensor,
    keys: Tensor,
    bias: Tensor,
    active: int,
    normalised: bool,
    epsilon: float,
) -> tuple[Tensor, ...]:
    """Norm, where there is a gain, routing and dispatch of x [T, H].

    Gives what `route_backward` needs of it, from x to ids [T, A]; then weights [T, A], order [P], tokens [P] and ends
    [E].
    """
    (T, H), (E, R) = x.shape, keys.shape
    norms = None if gain is None else x.new_empty(T)
    q, scales, chosen = x.new_empty(T, R), x.new_empty(T), x.new_empty(T, active)
    weights, ids = torch.empty_like(chosen), torch.empty_like(chosen, dtype=torch.long)
    order, tokens, ends = ids.new_empty(ids.numel()), ids.new_empty(ids.numel()), ids.new_empty(E, dtype=torch.int32)
    sizes, inputs = (T, H, R, E, active, int(normalised), epsilon), (x, gain, query, keys, bias)
    call("route_forward", *sizes, *inputs, norms, q, scales, chosen, weights, ids, order, tokens, ends)
    return x, gain, query, keys, norms, q, scales, chosen, ids, weights, order, tokens, ends


def route_backward(
    routed: tuple[Tensor, ...], normalised: bool, weights_gradient: Tensor, rows: Tensor
) -> list[Tensor | None]:
    """Gradients of gain, query and keys; `rows` holds what x has from elsewhere behind the norm and becomes its own."""
    x, *weights, ids = *routed[:4], routed[-1]
    outputs = [each if each is None else torch.empty_like(each) for each in weights]
    _, query, keys = weights
    sizes = *query.shape, len(keys), ids.shape[1], int(normalised)
    call("route_backward", len(x), *sizes, *routed, weights_gradient, rows, *outputs)
    return outputs


def transposed(weights: Tensor) -> Tensor:
    """[..., I, O] -> dense [..., O, I]."""
    *experts, inputs, outputs = weights.shape
    turned = weights.new_empty(*experts, outputs, inputs)
    call("transpose_weights", *(experts or [1]), inputs, outputs, weights, turned)
    return turned


class SharedWeights(torch.autograd.Function):
    """Weights [..., I, O] that several depths multiply: the same, but natively with one gradient for all of them.

    The products find this by the weights' `grad_fn`. Those of a backward pass that comes here add to one of
    `gradients`, the pass's own, and pass none on; when all have, it goes on from here.
    """

    @staticmethod
    def forward(ctx, weights: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.turned, ctx.gradients = None, {}
        return weights.view_as(weights)

    @staticmethod
    def backward(ctx, gradient: Tensor | None) -> Tensor | None:
        if torch.is_grad_enabled():
            raise RuntimeError("gradients from native.c have none themselves: no create_graph, or DREAMER_NATIVE=0")
        ctx.turned, own = None, ctx.gradients.pop(torch._C._current_graph_task_id(), None)
        return own if gradient is None else gradient if own is None else gradient + own


class WeightsBackward:
    """What the backward pass of a product has of its weights: together with those that share them, or for itself."""

    def __init__(self, weights: Tensor) -> None:
        self._shared = weights.grad_fn if isinstance(weights.grad_fn, SharedWeights._backward_cls) else None

    def turned(self, weights: Tensor) -> Tensor:
        """[..., I, O] transposed to [..., O, I]."""
        if self._shared is None:
            return transposed(weights)
        turned = self._shared.turned
        if turned is None:
            turned = self._shared.turned = transposed(weights)
        return turned

    def gradient(self, weights: Tensor) -> tuple[Tensor, Tensor | None]:
        """Where to add the weights' gradient, and what autograd is to be told of it."""
        if self._shared is None or not torch._C._will_engine_execute_node(self._shared):
            own = torch.zeros_like(weights)
            return own, own
        gradients, task = self._shared.gradients, torch._C._current_graph_task_id()
        if task not in gradients:
            gradients[task] = torch.zeros_like(weights)
        return gradients[task], None


def weights_backward(
    kept: Iterable[WeightsBackward], weights: Iterable[Tensor]
) -> tuple[list[Tensor], list[Tensor], list[Tensor | None]]:
    """Of each of the weights: transposed, where to add its gradient, and what autograd is to be told of it."""
    both = list(zip(kept, weights, strict=True))
    turned, found = [own.turned(each) for own, each in both], [own.gradient(each) for own, each in both]
    return turned, [gradient for gradient, _ in found], [passed_on for _, passed_on in found]


class NativeMixedProduct(torch.autograd.Function):
    """x [T, I], scores [T, 1], merged [E, I, O], shared [I, O] or None; tokens [T] and ends [E] of a dispatch."""

    @staticmethod
    def forward(
        ctx, x: Tensor, scores: Tensor, merged: Tensor, shared: Tensor | None, tokens: Tensor, ends: Tensor
    ) -> Tensor:
        ctx.weights = WeightsBackward(merged)
        x, scores, merged, shared = dense(x, scores, merged, shared)
        y = x.new_empty(len(x), merged.shape[2])
        call("mixed_forward", *merged.shape, x, scores, merged, tokens, ends, y)
        ctx.save_for_backward(x, scores, merged, shared, tokens, ends)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, scores, merged, shared, tokens, ends = ctx.saved_tensors
        x_gradient, scores_gradient = torch.empty_like(x), torch.empty_like(scores)
        turned, (merged_gradient, passed_on) = ctx.weights.turned(merged), ctx.weights.gradient(merged)
        inputs = x, scores, turned, shared, tokens, ends, gradient.contiguous()
        call("mixed_backward", len(x), *merged.shape, *inputs, x_gradient, scores_gradient, merged_gradient)
        return x_gradient, scores_gradient, passed_on, None, None, None


class NativeAttendSequence(torch.autograd.Function):
    """query [T, N, K], key and value [T, M, K], starts [T] -> [T, N, K]."""

    @staticmethod
    def forward(ctx, query: Tensor, key: Tensor, value: Tensor, starts: Tensor) -> Tensor:
        query, key, value = dense(query, key, value)
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
        query, *entries = dense(query, *entries)
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
