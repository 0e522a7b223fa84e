"""Update parameters by AdamW with gradient clipping.

With g the gradient, scaled down to the largest norm, and t the number of the step:

    m <- beta1 m + (1 - beta1) g          m' = m / (1 - beta1^t)
    v <- beta2 v + (1 - beta2) g^2        v' = v / (1 - beta2^t)
    w <- w - rate * decay * w - rate * m' / (sqrt(v') + epsilon)

The update is the fused function of `torch.optim`. Its class AdamW is not used: constructing one
imports the compiler, which takes seconds, and its state is numbered, not named, so that reordering
the model would mix parameters up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.parameter_groups import Trained


class AdamW:
    """The parameters that AdamW trains, with their moments, in the parameters' precision."""

    def __init__(self, trained: Sequence[Trained], config: TrainingConfig) -> None:
        self._config = config
        self._parameters = {each.name: each.parameter for each in trained}
        self._first: dict[str, Tensor] = {}  # m
        self._second: dict[str, Tensor] = {}  # v
        self._steps: dict[str, Tensor] = {}  # t
        # names by their factor of the rate and their decay
        self._groups: dict[tuple[float, float], list[str]] = defaultdict(list)
        for each in trained:
            self._groups[each.times, each.weight_decay].append(each.name)
            self._first[each.name] = torch.zeros_like(each.parameter)
            self._second[each.name] = torch.zeros_like(each.parameter)
            self._steps[each.name] = torch.zeros((), device=each.parameter.device)

    def step(self, learning_rate: float, shrink: Tensor) -> None:
        """Update the parameters that have a gradient, which is divided by `shrink`."""
        config = self._config
        for (times, weight_decay), group in self._groups.items():
            # an expert that no token has chosen has no gradient, and is left as it is
            names = [name for name in group if self._parameters[name].grad is not None]
            if not names:
                continue
            adamw(
                [self._parameters[name] for name in names],
                [self._parameters[name].grad for name in names],
                [self._first[name] for name in names],
                [self._second[name] for name in names],
                [],  # of AMSGrad alone
                [self._steps[name] for name in names],
                fused=True,
                # The fused function divides by it: so gradients are clipped without another pass
                # over them.
                grad_scale=shrink,
                amsgrad=False,
                beta1=config.beta1,
                beta2=config.beta2,
                lr=learning_rate * times,
                weight_decay=weight_decay,
                eps=config.epsilon,
                maximize=False,
            )

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state by name, for saving."""
        kinds = {"first": self._first, "second": self._second, "steps": self._steps}
        return {
            f"{kind}.{name}": tensor
            for kind, moments in kinds.items()
            for name, tensor in moments.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy a saved state of the same model into this optimiser."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])
