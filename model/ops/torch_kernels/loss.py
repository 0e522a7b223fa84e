"""Cross entropy over a large vocabulary in torch's operations, without ever holding all logits."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from model.ops.gpu import on_gpu

CHUNK_ELEMENTS = 2**26
"""Logits held at a time: 256 MiB in float32."""
GPU_CHUNK_ELEMENTS = 2**28
"""More where memory is fast, 1.5 GiB: every chunk passes over the whole gradient of the head."""


def cross_entropy_sum(hidden: Tensor, head: Tensor, targets: Tensor, chunk_elements: int | None = None) -> Tensor:
    """Compute the loss and its gradient together, chunk by chunk: logits are made once and dropped.

    The gradient of a sum of losses needs nothing from the backward pass but a factor. The softmax and the gradient of
    `head` are accumulated in float32 (or wider).
    """
    chunk_elements = chunk_elements or (GPU_CHUNK_ELEMENTS if on_gpu(hidden) else CHUNK_ELEMENTS)
    return _CrossEntropySum.apply(hidden, head, targets, max(1, chunk_elements // head.shape[0]))


class _CrossEntropySum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden: Tensor, head: Tensor, targets: Tensor, chunk: int) -> Tensor:
        wide = torch.promote_types(hidden.dtype, torch.float32)
        loss = torch.zeros((), dtype=wide, device=hidden.device)
        hidden_gradient = torch.empty_like(hidden)
        head_gradient = torch.zeros_like(head, dtype=wide)
        for begin in range(0, hidden.shape[0], chunk):
            part, wanted = hidden[begin : begin + chunk], targets[begin : begin + chunk, None]
            logits = part @ head.T
            logs = torch.log_softmax(logits, dim=1, dtype=wide)
            own = logs.gather(1, wanted)
            loss -= own.sum()
            if on_gpu(hidden):  # in one pass, into the logits
                gradient = torch.exp(logs, out=logits).scatter_(1, wanted, own.expm1().to(head.dtype))
            else:  # softmax, then minus one at the target
                gradient = logs.exp_()
                gradient = gradient.scatter_add_(1, wanted, gradient.new_full(wanted.shape, -1)).to(head.dtype)
            torch.mm(gradient, head, out=hidden_gradient[begin : begin + chunk])
            head_gradient += gradient.T @ part
        ctx.save_for_backward(hidden_gradient, head_gradient)
        ctx.head_dtype = head.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, factor: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden_gradient, head_gradient = ctx.saved_tensors
        return hidden_gradient * factor, (head_gradient * factor).to(ctx.head_dtype), None, None
