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

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from dreamer_study.model.training.config import TrainingConfig


def scheduled_rate(config: TrainingConfig, step: int, tokens: int) -> float:
    """Return the learning rate of optimiser step 1, 2, ..., after `tokens` of earlier steps.

    Linear warm-up, then constant (Table 3), or a decay that ends at 0 at `config.tokens`. The decay
    begins at warmup_steps * batch_tokens tokens: a little after the warm-up where rows are padded.
    """
    warmed_up = config.learning_rate * min(1.0, step / max(1, config.warmup_steps))
    # a training that ends within its warm-up has no decay, and nothing is divided by 0
    start = min(config.warmup_steps * config.batch_tokens, config.tokens - 1)
    done = min(max((tokens - start) / (config.tokens - start), 0.0), 1.0)  # share of the decay
    left = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 + 0.5 * math.cos(math.pi * done)}
    return warmed_up * left[config.schedule]


class AdamW:
    """AdamW with weight decay on the parameters `decayed` only.

    The moments are in the parameters' precision.
    """

    def __init__(
        self,
        named: Iterable[tuple[str, nn.Parameter]],
        decayed: Iterable[nn.Parameter],
        config: TrainingConfig,
    ) -> None:
        self._config = config
        self.parameters = {name: parameter for name, parameter in named if parameter.requires_grad}
        decayed_ids = {id(parameter) for parameter in decayed}
        with_decay: list[str] = []
        without_decay: list[str] = []
        self._first: dict[str, Tensor] = {}  # m
        self._second: dict[str, Tensor] = {}  # v
        self._steps: dict[str, Tensor] = {}  # t
        for name, parameter in self.parameters.items():
            group = with_decay if id(parameter) in decayed_ids else without_decay
            group.append(name)
            self._first[name] = torch.zeros_like(parameter)
            self._second[name] = torch.zeros_like(parameter)
            self._steps[name] = torch.zeros((), device=parameter.device)
        self._groups = [(with_decay, config.weight_decay), (without_decay, 0.0)]

    def gradients(self) -> list[Tensor]:
        """Return all gradients that are not None."""
        return [
            parameter.grad for parameter in self.parameters.values() if parameter.grad is not None
        ]

    def gradient_norm(self) -> Tensor:
        """Compute the Euclidean norm over all gradients, a float32 scalar on their device."""
        return nn.utils.get_total_norm(self.gradients())

    @torch.no_grad()
    def step(self, learning_rate: float, norm: Tensor) -> None:
        """Update the parameters by their gradients, of which `norm` is the norm.

        Gradients of a larger norm than the configured clip are scaled down to it.
        """
        config = self._config
        # The fused function divides the gradients by `grad_scale`: so they are clipped without
        # another pass over them.
        shrink = (norm.float() / config.clip).clamp(min=1.0)
        for group, weight_decay in self._groups:
            # an expert that no token has chosen has no gradient, and is left as it is
            names = [name for name in group if self.parameters[name].grad is not None]
            if not names:
                continue
            adamw(
                [self.parameters[name] for name in names],
                [self.parameters[name].grad for name in names],
                [self._first[name] for name in names],
                [self._second[name] for name in names],
                [],  # of AMSGrad alone
                [self._steps[name] for name in names],
                fused=True,
                grad_scale=shrink,
                amsgrad=False,
                beta1=config.beta1,
                beta2=config.beta2,
                lr=learning_rate,
                weight_decay=weight_decay,
                eps=config.epsilon,
                maximize=False,
            )

    def clear(self) -> None:
        """Drop the gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

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
