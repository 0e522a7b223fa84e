"""Products with many weight matrices in torch's operations.

These are mixtures of projections (Eq. 7) and SwiGLU experts. Tokens are sorted by expert, one
grouped product multiplies the rows of each expert by its own matrix, and the results are put back
in the order of the tokens. The gradients are written out: they keep less for the backward pass than
derived ones would, and sum in a fixed order. On CUDA the host reads no count.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from dreamer_study.model.ops.gpu import on_gpu, writes_empty_groups
from dreamer_study.model.ops.types import Dispatch, Factors, Routing

GROUPS = 1023
"""The most matrices that torch's grouped product takes at once on CUDA."""


def mixed_weights(
    weights: Tensor, shared: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Merge the weights: W + W_shared [E, I, O], and W_shared [I, O] without its own gradient."""
    if shared is None:
        return weights.to(dtype), None
    return (weights + shared).to(dtype), shared.detach().to(dtype)


def mixed_product(x: Tensor, routing: Routing, weights: tuple[Tensor, Tensor | None]) -> Tensor:
    """Multiply once per token, s x (W + W_shared), while only s x W passes a gradient on to s."""
    return _MixedProduct.apply(x, routing.scores.to(x.dtype), *weights, routing.dispatch)


class _MixedProduct(torch.autograd.Function):
    """y = s x (W + W_shared), where only s x W passes a gradient on to s (Eq. 7 and 8).

        ds = (g (W + W_shared)^T - g W_shared^T) x;  dx = s g (W + W_shared)^T
        d(W + W_shared) = (s x)^T g

    The backward pass works in the order of the experts: only inputs and outputs are reordered.
    """

    @staticmethod
    def forward(
        ctx, x: Tensor, scores: Tensor, merged: Tensor, shared: Tensor | None, pairs: Dispatch
    ) -> Tensor:
        rows = x.index_select(0, pairs.tokens)
        # On a GPU, where memory is short, x is kept: others keep it too, and its rows are gathered
        # again.
        ctx.save_for_backward(x if on_gpu(x) else rows, scores, merged, shared, *pairs)
        product = _grouped(rows, merged, pairs).index_select(0, pairs.places.flatten())
        if torch.compiler.is_compiling():  # torch 2.11 loses the gradients of a product in place
            return product * scores
        return product.mul_(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        rows, scores, merged, shared, *pairs = ctx.saved_tensors
        pairs = Dispatch(*pairs)
        places = pairs.places.flatten()
        sorted_scores = scores.index_select(0, pairs.tokens)
        if on_gpu(rows):
            rows = rows.index_select(0, pairs.tokens)
        gradient = gradient.index_select(0, pairs.tokens)
        through = _grouped(gradient, merged.transpose(1, 2), pairs)
        own = through if shared is None else torch.addmm(through, gradient, shared.T, alpha=-1)
        scores_gradient = torch.linalg.vecdot(own, rows).index_select(0, places).unsqueeze(-1)
        merged_gradient = grouped_outer(rows * sorted_scores, gradient, pairs)
        x_gradient = through.mul_(sorted_scores).index_select(0, places)
        return x_gradient, scores_gradient, merged_gradient, None, None


def swiglu_experts(
    x: Tensor, routing: Routing, inward: Tensor, outward: Tensor, taps: Factors | None
) -> Tensor:
    """Apply the scores before the down projection: their gradient then needs no output."""
    if taps is not None:  # the weights get their gradients through the taps
        inward = inward.detach()
        outward = outward.detach()
    return _SwiGLUExperts.apply(
        x, routing.scores.to(x.dtype), inward, outward, routing.dispatch, *(taps or ())
    )


class _SwiGLUExperts(torch.autograd.Function):
    """Sum the experts of each token: of pairs (token, expert) with gate g, up u and score s,

    y = sum over the token's experts of s (SiLU(g) * u) D
    """

    @staticmethod
    def forward(
        ctx,
        x: Tensor,
        weights: Tensor,
        inward: Tensor,
        outward: Tensor,
        pairs: Dispatch,
        *taps: Tensor,
    ) -> Tensor:
        projected = _grouped(x.index_select(0, pairs.tokens), inward, pairs)
        ctx.save_for_backward(x, weights, inward, outward, projected, *pairs)
        ctx.tapped = len(taps) > 0  # torch 2.11 does not trace the truth of a tuple
        gate, up = projected.chunk(2, dim=-1)
        sorted_weights = weights.flatten().index_select(0, pairs.order).unsqueeze(-1)
        hidden = F.silu(gate).mul_(up).mul_(sorted_weights)  # [P, F]
        return _sum_rows(_grouped(hidden, outward, pairs), pairs.places)

    @staticmethod
    @once_differentiable
    def backward(ctx, output_gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weights, inward, outward, projected, *pairs = ctx.saved_tensors
        pairs = Dispatch(*pairs)
        sorted_weights = weights.flatten().index_select(0, pairs.order).unsqueeze(-1)
        gradient = output_gradient.index_select(0, pairs.tokens)
        gate, up = projected.chunk(2, dim=-1)
        silu = F.silu(gate)
        hidden = silu * up

        hidden_gradient = _grouped(gradient, outward.transpose(1, 2), pairs)
        weights_gradient = torch.linalg.vecdot(hidden_gradient, hidden).index_select(
            0, pairs.places.flatten()
        )
        hidden.mul_(sorted_weights)
        outward_gradient = None if ctx.tapped else grouped_outer(hidden, gradient, pairs)

        hidden_gradient.mul_(sorted_weights)
        up_gradient = silu.mul_(hidden_gradient)
        gate_gradient = torch.ops.aten.silu_backward(hidden_gradient.mul_(up), gate)
        projected_gradient = torch.cat((gate_gradient, up_gradient), dim=-1)
        rows = None if ctx.tapped else x.index_select(0, pairs.tokens)
        inward_gradient = None if ctx.tapped else grouped_outer(rows, projected_gradient, pairs)
        x_gradient = _sum_rows(
            _grouped(projected_gradient, inward.transpose(1, 2), pairs), pairs.places
        )
        factors = ()
        if ctx.tapped:
            factors = Factors(
                x,
                output_gradient,
                hidden,
                projected_gradient,
                pairs.tokens.double(),
                pairs.ends.double(),
            )
        return (
            x_gradient,
            weights_gradient.view_as(weights),
            inward_gradient,
            outward_gradient,
            None,
            *factors,
        )


def expert_weights(weights: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast the weights; autograd adds up the gradients of all depths."""
    return weights.to(dtype)


def _sum_rows(rows: Tensor, places: Tensor) -> Tensor:
    """Sum for each token the rows at its places: [P, O] and [T, A] -> [T, O]."""
    if places.shape[1] == 1:
        return rows.index_select(0, places.flatten())
    if torch.compiler.is_compiling():  # one pass there, while the bag stays a call of its own
        return rows.index_select(0, places.flatten()).unflatten(0, places.shape).sum(dim=1)
    return F.embedding_bag(places, rows, mode="sum")


def _grouped(rows: Tensor, weights: Tensor, pairs: Dispatch) -> Tensor:
    """Multiply the rows [P, I] of each expert by its own weights [I, O]: [P, O]."""
    if _fits_grouped_mm(rows, weights.shape[1:]):
        first, *others = _parts(pairs.ends)
        product = F.grouped_mm(rows, weights[first], offs=pairs.ends[first])
        places = torch.arange(len(rows), device=rows.device).unsqueeze(1)
        for part in others:
            own = F.grouped_mm(rows, weights[part], offs=pairs.ends[part])
            product = torch.where(places < pairs.ends[part.start], product, own)
        return product
    product = rows.new_empty(len(rows), weights.shape[2])
    for run, weight in zip(_runs(pairs.ends), weights, strict=True):
        torch.mm(rows[run], weight, out=product[run])
    return product


def grouped_outer(rows: Tensor, gradient: Tensor, pairs: Dispatch) -> Tensor:
    """Multiply the transposed rows [P, I] of each expert by its gradients [P, O].

    The result is the gradient of weights [E, I, O].
    """
    if _fits_grouped_mm(rows, (rows.shape[1], gradient.shape[1])):
        products = [
            F.grouped_mm(rows.T, gradient, offs=pairs.ends[part]) for part in _parts(pairs.ends)
        ]
        product = products[0]
        if len(products) > 1:  # the first expert of each later part is wrong there (`_parts`)
            product = torch.cat([product, *(part[1:] for part in products[1:])])
        if writes_empty_groups(rows.device):
            return product
        empty = pairs.ends == F.pad(pairs.ends[:-1], (1, 0))
        return product.masked_fill(empty[:, None, None], 0)
    product = rows.new_empty(len(pairs.ends), rows.shape[1], gradient.shape[1])
    for run, outer in zip(_runs(pairs.ends), product, strict=True):
        torch.mm(rows[run].T, gradient[run], out=outer)
    return product


def _parts(ends: Tensor) -> list[slice]:
    """Split the experts into as few parts as a grouped product takes on a GPU.

    Where their rows are is not read, as the host would wait. Parts overlap by an expert: the
    product of a part counts the rows of all experts before as those of its first one, and is wrong
    there. So the earlier parts are small: the rows that are multiplied in vain are theirs.
    """
    if len(ends) <= GROUPS or not on_gpu(ends):
        return [slice(None)]
    parts: list[slice] = []
    stop = len(ends)
    while stop > 1:
        parts.insert(0, slice(max(0, stop - GROUPS), stop))
        stop = parts[0].start + 1
    return parts


def _fits_grouped_mm(rows: Tensor, sizes: tuple[int, ...]) -> bool:
    """Tell whether torch's grouped product takes these types and sizes: rows of whole 16 bytes."""
    # torch's compiler takes bfloat16 only
    taken = (torch.bfloat16,) if torch.compiler.is_compiling() else (torch.float32, torch.bfloat16)
    return rows.dtype in taken and all(size * rows.element_size() % 16 == 0 for size in sizes)


def _runs(ends: Tensor) -> list[slice]:
    """Return the places of each expert's rows."""
    stops = ends.tolist()
    return [slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]
