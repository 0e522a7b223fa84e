"""Update matrices by Muon: momentum, made orthogonal (Jordan 2024; Liu et al. 2025, 2502.16982).

With G the clipped gradient of a matrix [I, O]:

    M <- mu M + (1 - mu) G
    N  = (1 - mu) G + mu M                                  Nesterov's step
    W <- W - rate * decay * W - rate * 0.2 sqrt(max(I, O)) * orthogonal(N)

The factor gives an update the root mean square that AdamW's has ("match_rms_adamw"), so that one
grid of learning rates and weight decays suits both. It is the same for [I, O] and [O, I].

`torch.optim.Muon` has the same update for single matrices. It takes no banks of experts, would make
fused projections orthogonal to each other, and importing it imports the compiler.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dreamer_study.model.training.parameter_groups import Trained

QUINTIC = (3.4445, -4.7750, 2.0315)  # a, b, c of a x + b x^3 + c x^5, steepest at 0
STEPS = 5
SMALLEST_NORM = 1e-7
RMS_OF_ADAMW = 0.2


def orthogonal(matrices: Tensor) -> Tensor:
    """Make each matrix of [..., I, O] nearly orthogonal, in bfloat16, by Newton-Schulz steps.

    Singular values come to lie between 0.5 and 1.5, and singular vectors stay.
    """
    a, b, c = QUINTIC
    x = matrices.bfloat16()
    is_tall = x.shape[-2] > x.shape[-1]
    if is_tall:
        x = x.mT
    # so that no singular value is above 1
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=SMALLEST_NORM)
    for _ in range(STEPS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)  # b X + c X^2, X = x x^T
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x.mT if is_tall else x


def matrices_of(tensor: Tensor, parts: Sequence[int], axis: int) -> list[Tensor]:
    """Return views [E, I, O] of the matrices in a parameter: a bank, fused ones, or one alone."""
    bank = tensor if tensor.ndim == 3 else tensor[None]
    return list(bank.split(list(parts), dim=axis)) if parts else [bank]


class Muon:
    """The parameters that Muon trains, with their momentum, in the parameters' precision."""

    def __init__(self, trained: Sequence[Trained], momentum: float) -> None:
        self._trained = trained
        self._momentum = momentum
        self._buffers = {each.name: torch.zeros_like(each.parameter) for each in trained}

    def step(self, learning_rate: float, shrink: Tensor) -> None:
        """Update the parameters that have a gradient, which is divided by `shrink`."""
        moved = [each for each in self._trained if each.parameter.grad is not None]
        steps: dict[str, Tensor] = {}
        for each in moved:
            gradient = each.parameter.grad / shrink
            buffer = self._buffers[each.name]
            buffer.lerp_(gradient, 1 - self._momentum)
            steps[each.name] = gradient.lerp(buffer, self._momentum)
        # Matrices of a shape are made orthogonal in one call, of all layers and experts.
        by_shape: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
        for each in moved:
            for matrices in matrices_of(steps[each.name], each.parts, each.axis):
                by_shape[matrices.shape[-2], matrices.shape[-1]].append(matrices)
        for (rows, columns), matrices_of_shape in by_shape.items():
            scale = RMS_OF_ADAMW * math.sqrt(max(rows, columns))
            made = orthogonal(torch.cat(matrices_of_shape)).split(
                [len(matrices) for matrices in matrices_of_shape]
            )
            for matrices, update in zip(matrices_of_shape, made, strict=True):
                matrices.copy_(update).mul_(scale)  # a view of its step
        for each in moved:
            rate = learning_rate * each.times
            each.parameter.mul_(1 - rate * each.weight_decay)
            each.parameter.add_(steps[each.name], alpha=-rate)

    def tensors(self) -> dict[str, Tensor]:
        """Return the momentum by name, for saving."""
        return {f"momentum.{name}": buffer for name, buffer in self._buffers.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy a saved momentum into this one."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])
