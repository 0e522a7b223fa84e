"""Average the weights of a training over its latest steps, beside the weights that are trained.

At a constant learning rate the weights keep moving around a better place; their average lies nearer
to that place. The window is a share of the steps so far (power-function average; Karras et al.
2024, arXiv 2312.02696), so that one setting fits short and long runs: with power p the mean age of
what is averaged is 1 / (p + 1) of the steps.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def newest_share(step: int, power: float) -> float:
    """Return the share of the newest weights in the average after step 1, 2, ...

    It is 1 - (1 - 1/step)^power, where `power` is Karras' gamma + 1; after step t the weights of
    step s count about as s^(power - 1). Example: with power 18, 1 at step 1 and 0.018 at step
    1,000.
    """
    return 1.0 - (1.0 - 1.0 / step) ** power


class WeightAverage:
    """The running average of the floating-point tensors of a model's state, by name.

    It is kept in float32 at least. Buffers that count are whole numbers and have no average; the
    balance biases have one.
    """

    def __init__(self, state: Mapping[str, Tensor], power: float) -> None:
        """Begin with a copy of `state`, the tensors that training changes in place.

        With power 0 nothing is kept.
        """
        self._power = power
        self._trained: dict[str, Tensor] = {}
        if power:
            for name, tensor in state.items():
                # infinities stay out, as in masks: their interpolation is NaN
                if tensor.is_floating_point() and tensor.isfinite().all():
                    self._trained[name] = tensor.detach()
        self.tensors = {
            name: tensor.to(torch.promote_types(tensor.dtype, torch.float32), copy=True)
            for name, tensor in self._trained.items()
        }

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the weights after optimiser step 1, 2, ... into the average.

        The first step replaces the average.
        """
        if self.tensors:
            newest = [tensor.to(self.tensors[name].dtype) for name, tensor in self._trained.items()]
            averages = list(self.tensors.values())
            # average <- average + share * (newest - average), all tensors in one call
            torch._foreach_lerp_(averages, newest, newest_share(step, self._power))

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy a saved average of the same model into this one."""
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])
