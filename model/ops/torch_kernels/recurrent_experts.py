"""Make the gradients of experts that several depths use, in one product for many depths.

A gradient of all experts at each depth would be written, read and added up in bfloat16, rounded
every time; the rows that it is made of are fewer bytes than the experts. The rows reach
`_UsedExperts` as gradients of its outputs, so that autograd keeps them, waits for the last one, and
does the same for compiled and for recomputed layers.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dreamer_study.model.ops.gpu import on_gpu
from dreamer_study.model.ops.torch_kernels.products import grouped_outer
from dreamer_study.model.ops.torch_kernels.routing import dispatch
from dreamer_study.model.ops.types import Factors

ELEMENTS = 2**29
"""Elements of the rows that are multiplied at once.

In bfloat16 they are 1 GiB, and their gradients as much.
"""


def gradient_taps(
    inward: Tensor, outward: Tensor, uses: int, tokens: int, active: int
) -> Iterator[Factors | None]:
    """Make the taps of each use, for as many uses together as `ELEMENTS` allows.

    A use alone gets none.

    Taps are made when the first of their uses comes: autograd passes backwards through the newest
    node first, so that the rows of these uses are multiplied and freed before those of earlier uses
    are made. On a GPU only: on a CPU the C engine sums in place, and the rows would take memory.
    """
    wanted = torch.is_grad_enabled() and inward.requires_grad and outward.requires_grad
    together = ELEMENTS // (tokens * active * max(inward.shape[1:]))
    if not wanted or not on_gpu(inward) or min(uses, together) < 2:
        yield from [None] * uses
        return
    for group in torch.arange(uses).chunk(-(-uses // together)):
        yield from _uses(_UsedExperts.apply(inward, outward, len(group), tokens, active))


class _UsedExperts(torch.autograd.Function):
    """Make zeros for each use of the experts.

    The gradients of these zeros are factors of the weights' gradients (`Factors`).
    """

    @staticmethod
    def forward(
        ctx, inward: Tensor, outward: Tensor, uses: int, tokens: int, active: int
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.experts, hidden_size, projected = inward.shape
        ctx.tokens = tokens
        ctx.pairs = tokens * active
        # expanded from one element: the zeros take no memory
        zero = inward.new_zeros(())
        number = inward.new_zeros((), dtype=torch.float64)
        taps: list[Tensor] = []
        for _ in range(uses):
            taps += Factors(
                x=zero.expand(tokens, hidden_size),
                gradient=zero.expand(tokens, hidden_size),
                hidden=zero.expand(ctx.pairs, projected // 2),
                projected=zero.expand(ctx.pairs, projected),
                tokens=number.expand(ctx.pairs),
                ends=number.expand(ctx.experts),
            )
        return tuple(taps)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        uses = [use for use in _uses(gradients) if use.x is not None]
        if not uses:
            return (None,) * 5
        # Rows of all uses one behind the other, each of one expert; a use has its own rows in the
        # experts' order.
        places = torch.arange(ctx.pairs, device=uses[0].x.device)
        experts = torch.cat(
            [torch.searchsorted(use.ends.long(), places, right=True) for use in uses]
        )
        rows = dispatch(experts.unsqueeze(1), ctx.experts)
        tokens = torch.cat(
            [use.tokens.long() + number * ctx.tokens for number, use in enumerate(uses)]
        )[rows.order]
        x = torch.cat([use.x for use in uses])
        gradient = torch.cat([use.gradient for use in uses])
        projected = _placed([use.projected for use in uses], rows.places)
        inward = grouped_outer(x[tokens], projected, rows)
        del projected  # before the next rows are made
        hidden = _placed([use.hidden for use in uses], rows.places)
        outward = grouped_outer(hidden, gradient[tokens], rows)
        return inward, outward, None, None, None


def _uses(tensors: tuple[Tensor | None, ...]) -> Iterator[Factors]:
    """Split the tensors of several uses, one use behind the other."""
    width = len(Factors._fields)
    return (Factors(*tensors[first : first + width]) for first in range(0, len(tensors), width))


def _placed(parts: list[Tensor], places: Tensor) -> Tensor:
    """Put the rows of all parts at their places, without a copy of all rows before."""
    together = parts[0].new_empty(len(places), parts[0].shape[1])
    for part, own in zip(parts, places.flatten().split(len(parts[0])), strict=True):
        together.index_copy_(0, own, part)
    return together
