"""Update parameters by AdamW with gradient clipping.

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
    """Return the learning rate of optimiser step 1, 2, ...; `tokens` are those that earlier steps
    have trained on.

    Linear warm-up, then constant (Table 3), or a decay that ends at 0 at `config.tokens`. The decay
    begins at warmup_steps * batch_tokens tokens: a little after the warm-up where rows are padded.
    """
    warmed_up = config.learning_rate * min(1.0, step / max(1, config.warmup_steps))
    start = min(config.warmup_steps * config.batch_tokens, config.tokens - 1)
    done = min(max((tokens - start) / (config.tokens - start), 0.0), 1.0)
    left = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 + 0.5 * math.cos(math.pi * done)}
    return warmed_up * left[config.schedule]


class AdamW:
    """AdamW with weight decay on the parameters `decayed` only; moments in the parameters'
    precision."""

    def __init__(
        self,
        named: Iterable[tuple[str, nn.Parameter]],
        decayed: Iterable[nn.Parameter],
        config: TrainingConfig,
    ) -> None:
        self._config = config
        self.parameters = {name: parameter for name, parameter in named if parameter.requires_grad}
        with_decay = {id(parameter) for parameter in decayed}
        self._groups = [
            ([n for n, p in self.parameters.items() if id(p) in with_decay], config.weight_decay),
            ([n for n, p in self.parameters.items() if id(p) not in with_decay], 0.0),
        ]
        self._first = {
            name: torch.zeros_like(parameter) for name, parameter in self.parameters.items()
        }
        self._second = {
            name: torch.zeros_like(parameter) for name, parameter in self.parameters.items()
        }
        self._steps = {n: torch.zeros((), device=p.device) for n, p in self.parameters.items()}

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
        """Update the parameters; gradients of norm `norm` are scaled down to the configured clip
        where it is larger."""
        config, shrink = self._config, (norm.float() / self._config.clip).clamp(min=1.0)
        for names, weight_decay in self._groups:
            names = [name for name in names if self.parameters[name].grad is not None]
            if not names:
                continue
            adamw(
                [self.parameters[name] for name in names],
                [self.parameters[name].grad for name in names],
                [self._first[name] for name in names],
                [self._second[name] for name in names],
                [],
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
