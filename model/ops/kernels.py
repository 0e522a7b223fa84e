"""The products the network is made of, each with its gradient written out.

The written gradients keep less for the backward pass than derived ones would, and sum in a fixed order. On one CPU
core at small sizes most of a step is spent around the matrix products: there they are loops in native.c, several of
them in one, where it can be compiled. `reference.py` states the same mathematics plainly; tests hold the three
together, outputs and all gradients.

Axes: T tokens, E experts, A active experts, F expert size, P = T*A token-expert pairs, I and O inputs and outputs of a
projection, N and M query and key/value heads, K head size.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from model.ops.native import functions as native_kernels
from model.ops.native import library as native
from model.ops.native.shared_gradient import SharedWeights


def turn(x: Tensor, code: Tensor, *, back: bool = False) -> Tensor:
    """RoPE: turn the pairs (x[..., 2i], x[..., 2i + 1]) by angles whose cosine and sine are `code` [..., K/2, 2]."""
    pairs = x.unflatten(-1, (-1, 2))
    if not x.is_cuda and x.dtype == code.dtype:
        rotation = torch.view_as_complex(code)
        turned = torch.view_as_complex(pairs) * (rotation.conj() if back else rotation)
        return torch.view_as_real(turned).flatten(-2)
    first, second = pairs.unbind(-1)
    cosine, sine = code.unbind(-1)  # in float32: narrow angles would blur positions
    sine = -sine if back else sine
    turned = first * cosine - second * sine, second * cosine + first * sine
    return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)


def rms_norm(x: Tensor, gain: Tensor, epsilon: float, code: Tensor | None = None) -> Tensor:
    """RMSNorm over the last axis, x / sqrt(mean(x^2) + epsilon) * gain, of x turned by `code` if there is one.

    In float32 where x is narrower.
    """
    dtype = x.dtype
    if code is None and gain.shape == x.shape[-1:] and native.takes(x, gain):
        return native_kernels.NativeRMSNorm.apply(x, gain, epsilon)
    if dtype in (torch.float32, torch.float64) and not x.is_cuda:
        return _TurnedNorm.apply(x, gain, epsilon, code)
    wide = torch.promote_types(x.dtype, torch.float32)  # a gain near 1 in bfloat16 would not show most of its updates
    x = (x if code is None else turn(x, code)).to(wide)
    return (F.rms_norm(x, x.shape[-1:], eps=epsilon) * gain).to(dtype)


class _TurnedNorm(torch.autograd.Function):
    """With z = turn(x) / rms(x) and y = z * gain. Turning does not change the rms."""

    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor, epsilon: float, code: Tensor | None) -> Tensor:
        square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
        scale = square.div_(x.shape[-1]).add_(epsilon).rsqrt_()
        z = x * scale if code is None else turn(x, code).mul_(scale)
        ctx.save_for_backward(z, gain, scale, code)
        return z * gain

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        z, gain, scale, code = ctx.saved_tensors
        gain_gradient = None
        if ctx.needs_input_grad[1]:
            gain_gradient = (gradient * z).flatten(0, -1 - gain.ndim).sum(dim=0)
        gradient = gradient * gain
        along = torch.linalg.vecdot(gradient, z).unsqueeze(-1).div_(z.shape[-1])
        gradient = gradient.addcmul_(z, along, value=-1).mul_(scale)
        return gradient if code is None else turn(gradient, code, back=True), gain_gradient, None, None


def split_heads(
    projected: Tensor, query_gain: Tensor, key_gain: Tensor, heads: tuple[int, int], epsilon: float, code: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Fused projections [T, (N+2M)K] to queries [T, N, K], keys and values [T, M, K]; `heads` are N and M.

    RoPE by `code` [T or 1, 1, K/2, 2] comes first, then RMSNorm with the gains [K], on queries and keys.
    """
    N, M = heads
    if native.takes(projected, query_gain, key_gain, code):
        return native_kernels.NativeHeads.apply(projected, query_gain, key_gain, code, epsilon, N, M)
    query_key, value = projected.unflatten(-1, (N + 2 * M, -1)).split((N + M, M), dim=1)
    gains = torch.cat((query_gain.expand(N, -1), key_gain.expand(M, -1)))
    return *rms_norm(query_key, gains, epsilon, code).split((N, M), dim=1), value


def routing_keys(keys: Tensor, gain: Tensor, epsilon: float, code: Tensor | None) -> tuple[Tensor, ...]:
    """What `route` takes as keys, from keys [E, R] and the gain [R] of the queries' norm, for each depth of `code`
    [L, R/2, 2], or once without one.

    The code turns all queries of a depth alike, so the few keys are turned backwards instead, which gives the same
    scores. The gain and the scores' 1/sqrt(R) go into the keys as well.
    """
    if native.takes(keys, gain, code):
        return native_kernels.NativeKeys.apply(keys, gain, code, epsilon)
    keys = rms_norm(keys, torch.ones_like(gain), epsilon) * (gain * len(gain) ** -0.5)
    return (keys,) if code is None else turn(keys.unsqueeze(0), code.unsqueeze(1), back=True).unbind()


def route(
    x: Tensor, query: Tensor, keys: Tensor, bias: Tensor, active: int, normalised: bool, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Eq. 2: choose `active` experts for x [T, H] by their scores plus bias; ids [T, A] and weights [T, A].

    `query` [H, R] projects the queries, which are normalised; `keys` [E, R] hold everything else the scores need.
    Computed in the dtype of `query`.
    """
    if native.takes(query, keys, bias):
        x, router = x.to(query.dtype), native_kernels.NativeRoute
    else:
        router = _Route
    weights, ids = router.apply(x, query, keys, bias, active, normalised, epsilon)
    return ids, weights


class _Route(torch.autograd.Function):
    """Only the chosen scores pass a gradient on, so only they are kept, and x in the precision it came in."""

    @staticmethod
    def forward(
        ctx, x: Tensor, query: Tensor, keys: Tensor, bias: Tensor, active: int, normalised: bool, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        q = x.to(query.dtype) @ query
        square = torch.linalg.vector_norm(q, dim=-1, keepdim=True).square_()
        scale = square.div_(q.shape[-1]).add_(epsilon).rsqrt_()
        scores = (q @ keys.T).mul_(scale)
        biased = scores + bias
        ids = biased.argmax(dim=-1, keepdim=True) if active == 1 else biased.topk(active, dim=-1, sorted=False).indices
        chosen = scores.gather(-1, ids)
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
        scores_gradient = gradient.new_zeros(len(x), len(keys)).scatter_(-1, ids, gradient)
        along = (gradient * chosen).sum(dim=-1, keepdim=True).mul_(scale).div_(q.shape[-1])
        q_gradient = (scores_gradient @ keys).addcmul_(q, along, value=-1)
        x_gradient, query_gradient = (q_gradient @ query.T).to(x.dtype), x.to(q.dtype).T @ q_gradient
        return x_gradient, query_gradient, scores_gradient.T @ q, None, None, None, None


GROUPS = 1023
"""So many matrices torch's grouped product takes at once on CUDA."""


class Dispatch(NamedTuple):
    """Token-expert pairs sorted by expert. Pair i of P = T*A belongs to token i // A."""

    order: Tensor  # [P]: the pair at each place
    tokens: Tensor  # [P]: the token at each place
    places: Tensor  # [T, A]: the place of each pair
    ends: Tensor  # [E] int32: where each expert's run of places ends
    cuts: Tensor | None = None  # on the host, if there are more than GROUPS experts: where each next GROUPS begin


def dispatch(ids: Tensor, experts: int) -> Dispatch:
    """Sort the selections `ids` [T, A] by expert; within an expert tokens keep their order."""
    keys = ids.to(torch.int16) if ids.is_cuda and experts <= 2**15 else ids  # CUDA sorts byte by byte
    chosen, order = keys.flatten().sort(stable=True)
    numbers = torch.arange(max(len(order), experts), device=ids.device)
    places = torch.empty_like(order).scatter_(0, order, numbers[: len(order)]).view_as(ids)
    ends = torch.searchsorted(chosen, numbers[:experts].to(keys.dtype), right=True, out_int32=True)
    return Dispatch(order, order if ids.shape[1] == 1 else order // ids.shape[1], places, ends, _cuts(ends))


def _cuts(ends: Tensor) -> Tensor | None:
    return ends[GROUPS - 1 : -1 : GROUPS].cpu() if len(ends) > GROUPS else None


def _sum_rows(rows: Tensor, places: Tensor) -> Tensor:
    """For each token the sum of the rows at its places: [P, O] and [T, A] -> [T, O]."""
    if places.shape[1] == 1:
        return rows.index_select(0, places.flatten())
    if torch.compiler.is_compiling():  # one pass there, while the bag stays a call of its own
        return rows.index_select(0, places.flatten()).unflatten(0, places.shape).sum(dim=1)
    return F.embedding_bag(places, rows, mode="sum")


def _grouped(rows: Tensor, weights: Tensor, to: Dispatch) -> Tensor:
    """Each expert's run of rows [P, I] times its own matrix of weights [E, I, O]: [P, O]."""
    if _fits_grouped_mm(rows, weights.shape[1:]):
        return _joined([F.grouped_mm(rows[run], weights[own], offs=ends) for run, own, ends in _parts(to)])
    product = rows.new_empty(len(rows), weights.shape[2])
    for run, weight in zip(_runs(to.ends), weights, strict=True):
        torch.mm(rows[run], weight, out=product[run])
    return product


def _grouped_outer(rows: Tensor, gradient: Tensor, to: Dispatch) -> Tensor:
    """The gradient of the weights: for each expert its rows [P, I] transposed times its gradients [P, O]: [E, I, O]."""
    if _fits_grouped_mm(rows, (rows.shape[1], gradient.shape[1])):
        return _joined([F.grouped_mm(rows[run].T, gradient[run], offs=ends) for run, _, ends in _parts(to)])
    product = rows.new_empty(len(to.ends), rows.shape[1], gradient.shape[1])
    for run, outer in zip(_runs(to.ends), product, strict=True):
        torch.mm(rows[run].T, gradient[run], out=outer)
    return product


def _parts(to: Dispatch) -> list[tuple[slice, slice, Tensor]]:
    """Rows, experts and their ends, in as few parts as grouped products take."""
    if to.cuts is None:
        return [(slice(None), slice(None), to.ends)]
    cuts = [0, *to.cuts.tolist(), None]
    experts = [slice(first, first + GROUPS) for first in range(0, len(to.ends), GROUPS)]
    rows = [slice(*pair) for pair in itertools.pairwise(cuts)]
    return [(run, own, to.ends[own] - run.start) for run, own in zip(rows, experts, strict=True)]


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _fits_grouped_mm(rows: Tensor, sizes: tuple[int, ...]) -> bool:
    """torch's grouped product takes these types (its compiler bfloat16 only), and rows of whole 16 bytes."""
    taken = (torch.bfloat16,) if torch.compiler.is_compiling() else (torch.float32, torch.bfloat16)
    return rows.dtype in taken and all(size * rows.element_size() % 16 == 0 for size in sizes)


def _runs(ends: Tensor) -> list[slice]:
    stops = ends.tolist()
    return [slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]


def share(weights: Tensor) -> Tensor:
    """Weights [E, I, O] that several products of one forward multiply, the same; to native.c their gradient is one."""
    if weights.requires_grad and native.takes(weights):
        return SharedWeights.apply(weights)
    return weights


def mixed_product(x: Tensor, scores: Tensor, merged: Tensor, shared: Tensor | None, to: Dispatch) -> Tensor:
    """Eq. 7 with a single product per token: s x (W + W_shared), while only s x W passes a gradient on to the score s.

    x [T, I], scores [T, 1], merged weights W + W_shared [E, I, O], shared weights [I, O] or None where there are none.
    """
    if native.holds(merged) and native.takes(x, scores, merged, shared):
        return native_kernels.NativeMixedProduct.apply(x, scores, merged, shared, to.tokens, to.ends)
    return _MixedProduct.apply(x, scores, merged, shared, to)


class _MixedProduct(torch.autograd.Function):
    """Everything of the backward pass happens in the experts' order: only what enters and leaves is put in order."""

    @staticmethod
    def forward(ctx, x: Tensor, scores: Tensor, merged: Tensor, shared: Tensor | None, to: Dispatch) -> Tensor:
        rows = x.index_select(0, to.tokens)
        ctx.save_for_backward(rows, scores, merged, shared, *to)
        product = _grouped(rows, merged, to).index_select(0, to.places.flatten())
        if torch.compiler.is_compiling():  # torch 2.11 loses the gradients of a product in place
            return product * scores
        return product.mul_(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        rows, scores, merged, shared, *to = ctx.saved_tensors
        to = Dispatch(*to)
        places, sorted_scores = to.places.flatten(), scores.index_select(0, to.tokens)
        gradient = gradient.index_select(0, to.tokens)
        through = _grouped(gradient, merged.transpose(1, 2), to)
        own = through if shared is None else torch.addmm(through, gradient, shared.T, alpha=-1)
        scores_gradient = torch.linalg.vecdot(own, rows).index_select(0, places).unsqueeze(-1)
        merged_gradient = _grouped_outer(rows * sorted_scores, gradient, to)
        x_gradient = through.mul_(sorted_scores).index_select(0, places)
        return x_gradient, scores_gradient, merged_gradient, None, None


def swiglu_experts(x: Tensor, weights: Tensor, inward: Tensor, outward: Tensor, to: Dispatch) -> Tensor:
    """The weighted sum of each token's chosen SwiGLU experts.

    x [T, H], weights [T, A], gate and up projection side by side [E, H, 2F], down projection [E, F, H] -> [T, H].
    Weights are applied before the down projection: so its output need not be kept to know their gradient.
    """
    return _SwiGLUExperts.apply(x, weights, inward, outward, to)


class _SwiGLUExperts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weights: Tensor, inward: Tensor, outward: Tensor, to: Dispatch) -> Tensor:
        projected = _grouped(x.index_select(0, to.tokens), inward, to)
        ctx.save_for_backward(x, weights, inward, outward, projected, *to)
        gate, up = projected.chunk(2, dim=-1)
        hidden = F.silu(gate).mul_(up).mul_(weights.flatten().index_select(0, to.order).unsqueeze(-1))
        return _sum_rows(_grouped(hidden, outward, to), to.places)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        x, weights, inward, outward, projected, *to = ctx.saved_tensors
        to = Dispatch(*to)
        sorted_weights = weights.flatten().index_select(0, to.order).unsqueeze(-1)
        rows, gradient = x.index_select(0, to.tokens), gradient.index_select(0, to.tokens)
        gate, up = projected.chunk(2, dim=-1)
        silu = F.silu(gate)
        hidden = silu * up

        hidden_gradient = _grouped(gradient, outward.transpose(1, 2), to)
        weights_gradient = torch.linalg.vecdot(hidden_gradient, hidden).index_select(0, to.places.flatten())
        outward_gradient = _grouped_outer(hidden.mul_(sorted_weights), gradient, to)

        hidden_gradient.mul_(sorted_weights)
        up_gradient = silu.mul_(hidden_gradient)
        gate_gradient = torch.ops.aten.silu_backward(hidden_gradient.mul_(up), gate)
        projected_gradient = torch.cat((gate_gradient, up_gradient), dim=-1)
        inward_gradient = _grouped_outer(rows, projected_gradient, to)
        x_gradient = _sum_rows(_grouped(projected_gradient, inward.transpose(1, 2), to), to.places)
        return x_gradient, weights_gradient.view_as(weights), inward_gradient, outward_gradient, None


def attend_depth(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Eq. 1 over the depth: query [T, N, K] of this depth, keys and values [T, M, K] of the visible depths.

    Returns the attended values [T, N, K] and the scores [T, N, depths] (without a gradient). The history of keys and
    values is neither copied nor concatenated, so what is kept for the backward pass grows with the depth, not with
    its square.
    """
    if native.takes(query, *keys, *values):
        return native_kernels.NativeAttendDepth.apply(query, *keys, *values)
    T, N, K = query.shape
    M = keys[0].shape[1]
    attended, scores = _AttendDepth.apply(query.reshape(T, M, N // M, K), *keys, *values)
    return attended.view(T, N, K), scores.view(T, N, len(keys))


class _AttendDepth(torch.autograd.Function):
    """Query [T, M, G, K] with G = N / M queries per key; the depths are few, so they are simply gone through."""

    @staticmethod
    def forward(ctx, query: Tensor, *entries: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = entries[: len(entries) // 2], entries[len(entries) // 2 :]
        scores = _stacked_products(query, keys).mul_(query.shape[-1] ** -0.5).softmax(dim=-1)
        attended = _weighted_sum(scores, values)
        ctx.save_for_backward(query, scores, *entries)
        ctx.mark_non_differentiable(scores)
        return attended.to(query.dtype), scores

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        query, scores, *entries = ctx.saved_tensors
        keys, values = entries[: len(entries) // 2], entries[len(entries) // 2 :]
        through = _stacked_products(gradient, values)
        through = scores * (through - torch.linalg.vecdot(scores, through).unsqueeze(-1)) * query.shape[-1] ** -0.5
        key_gradients = [_sum_queries(part.unsqueeze(-1) * query) for part in through.unbind(-1)]
        value_gradients = [_sum_queries(part.unsqueeze(-1) * gradient) for part in scores.unbind(-1)]
        gradients = (_weighted_sum(through, keys), *key_gradients, *value_gradients)
        return tuple(part.to(query.dtype) for part in gradients)


def _stacked_products(query: Tensor, entries: list[Tensor]) -> Tensor:
    """Products of query [T, M, G, K] with each entry [T, M, K]: [T, M, G, depths], in float32 at least."""
    dtype = torch.promote_types(query.dtype, torch.float32)
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
