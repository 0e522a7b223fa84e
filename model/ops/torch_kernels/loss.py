"""Cross entropy over a large vocabulary in torch's operations, without ever holding all logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dreamer_study.model.ops.gpu import compile_for_many_shapes, on_gpu

CHUNK_ELEMENTS = 2**26
"""Logits held at a time: 256 MiB in float32."""
GPU_CHUNK_BYTES = 3 * 2**29
"""Logits, and their softmax in float32 where one is made, held at a time on a GPU.

Many, as every chunk passes over the whole gradient of the head.
"""


def cross_entropy_sum(
    hidden: Tensor,
    head: Tensor,
    targets: Tensor,
    chunk_elements: int | None = None,
    compiled: bool = False,
) -> Tensor:
    """Compute the loss and its gradient together, chunk by chunk: logits are made once and dropped.

    The gradient of a sum of losses needs nothing from the backward pass but a factor:

        dlogits = softmax(logits) - onehot(target)
        dhidden = dlogits head;  dhead = dlogits^T hidden

    The softmax and the gradient of `head` are accumulated in float32 (or wider).
    """
    compiled = compiled and on_gpu(hidden) and not torch.compiler.is_compiling()
    if chunk_elements is None:
        chunk_elements = CHUNK_ELEMENTS
        if on_gpu(hidden):
            softmax_bytes = 0 if compiled and len(hidden) > 1 else 4
            chunk_elements = GPU_CHUNK_BYTES // (hidden.element_size() + softmax_bytes)
    chunk_rows = max(1, chunk_elements // head.shape[0])
    return _CrossEntropySum.apply(hidden, head, targets, chunk_rows, compiled)


class _CrossEntropySum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, hidden: Tensor, head: Tensor, targets: Tensor, chunk: int, compiled: bool
    ) -> Tensor:
        wide = torch.promote_types(hidden.dtype, torch.float32)
        loss = torch.zeros((), dtype=wide, device=hidden.device)
        hidden_gradient = torch.empty_like(hidden)
        head_gradient = torch.zeros_like(head, dtype=wide)
        for begin in range(0, hidden.shape[0], chunk):
            part = hidden[begin : begin + chunk]  # [rows, H]
            wanted = targets[begin : begin + chunk, None]  # [rows, 1]
            logits = part @ head.T  # [rows, V]
            if compiled and len(part) > 1:  # a graph of many rows does not take a single one
                own, gradient = _in_one_kernel(logits, wanted, wide)
            elif on_gpu(hidden):
                own, gradient = _into_logits(logits, wanted, wide)
            else:
                own, gradient = _beside_logits(logits, wanted, wide)
            loss -= own.sum()
            torch.mm(gradient, head, out=hidden_gradient[begin : begin + chunk])
            head_gradient += gradient.T @ part
        ctx.save_for_backward(hidden_gradient, head_gradient)
        ctx.head_dtype = head.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, factor: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        hidden_gradient, head_gradient = ctx.saved_tensors
        scaled_head_gradient = (head_gradient * factor).to(ctx.head_dtype)
        return hidden_gradient * factor, scaled_head_gradient, None, None, None


# Each takes logits [T, V] and targets [T, 1], and returns the logarithms of the targets'
# probabilities [T, 1] and the gradient of the losses' sum [T, V], which is the softmax, less one at
# the target. `wide` is the type of sums.


def _beside_logits(logits: Tensor, wanted: Tensor, wide: torch.dtype) -> tuple[Tensor, Tensor]:
    """Compute the gradient in a tensor of its own."""
    logs = torch.log_softmax(logits, dim=1, dtype=wide)
    own = logs.gather(1, wanted)
    gradient = logs.exp_()
    gradient.scatter_add_(1, wanted, gradient.new_full(wanted.shape, -1))
    return own, gradient.to(logits.dtype)


def _into_logits(logits: Tensor, wanted: Tensor, wide: torch.dtype) -> tuple[Tensor, Tensor]:
    """Compute the gradient into the logits by three operations, which move 12 bytes a logit."""
    logs = torch.log_softmax(logits, dim=1, dtype=wide)
    own = logs.gather(1, wanted)
    return own, torch.exp(logs, out=logits).scatter_(1, wanted, own.expm1().to(logits.dtype))


def _in_one_kernel(logits: Tensor, wanted: Tensor, wide: torch.dtype) -> tuple[Tensor, Tensor]:
    """Compute the gradient into the logits by one kernel.

    It loops over a row for its sum, then for its gradient. The kernel moves 6 bytes a logit, of
    which the second loop may read 2 from a cache.
    """
    given = logits, wanted, logits.gather(1, wanted).to(wide)
    for tensor in given:
        torch._dynamo.mark_dynamic(tensor, 0)  # the last chunk has fewer rows
    return _compiled()(*given), logits


@cache
def _compiled() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Compile `_gradient` at the first call, as the compiler takes seconds to load."""
    # without split reductions few rows make one kernel too
    return compile_for_many_shapes(
        _gradient, fullgraph=True, dynamic=False, options={"split_reductions": False}
    )


def _gradient(logits: Tensor, wanted: Tensor, chosen: Tensor) -> Tensor:
    """Write the gradient into the logits, and return the logarithms of the targets' probabilities.

    `chosen` has the logits at the targets, which the gradient overwrites. In this form the compiler
    finds the largest logit and the sum in one loop.
    """
    values = logits.to(chosen.dtype)
    largest = values.amax(dim=1, keepdim=True)
    total = (values - largest).exp().sum(dim=1, keepdim=True).log() + largest
    own = chosen - total
    places = torch.arange(logits.shape[1], device=logits.device)
    logits.copy_(torch.where(places == wanted, own.expm1(), (values - total).exp()))
    return own
