"""Update the parameters of a model by the rules of its recipe: AdamW, Muon, or a class of a user's.

The state of each rule is tensors by the names of parameters, so that a run resumes to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from dreamer_study.model.contract import Network
from dreamer_study.model.training.adamw import AdamW
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.muon import Muon
from dreamer_study.model.training.own_optimizer import OwnOptimizer, load_optimizer
from dreamer_study.model.training.parameter_groups import Trained, trained_parameters
from dreamer_study.model.training.recipe import ADAMW, MUON


class Rule(Protocol):
    """How some of the parameters are updated."""

    def step(self, learning_rate: float, shrink: Tensor) -> None:
        """Update the parameters that have a gradient, which is divided by `shrink`."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state by name, for saving."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take a saved state of the same model."""


class Optimizer:
    """The parameters of a model, clipped together, and the rules that update them."""

    def __init__(
        self, trained: Sequence[Trained], rules: Sequence[Rule], clip: float | None
    ) -> None:
        self.parameters = {each.name: each.parameter for each in trained}
        self._rules = rules
        self._clip = clip

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
        if self._clip is None:
            shrink = torch.ones_like(norm, dtype=torch.float32)
        else:
            shrink = (norm.float() / self._clip).clamp(min=1.0)
        for rule in self._rules:
            rule.step(learning_rate, shrink)

    def clear(self) -> None:
        """Drop the gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state by name, for saving."""
        return {name: tensor for rule in self._rules for name, tensor in rule.tensors().items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy a saved state of the same model into this optimiser."""
        for rule in self._rules:
            rule.load(tensors)


def make_optimizer(
    model: Network,
    config: TrainingConfig,
    *,
    code: Path | None = None,
    trust_code: bool = False,
) -> Optimizer:
    """Make the optimiser of a model by its recipe.

    `code` is the folder of a user's class, which is run with `trust_code` only. Raises InputError
    where the class or the model's groups of parameters are of no use.
    """
    trained = trained_parameters(model, config)
    if config.optimizer not in (ADAMW, MUON):
        kind = load_optimizer(config, code, trust_code=trust_code)
        return Optimizer(trained, [OwnOptimizer(kind, trained, config)], config.clip)
    rules: list[Rule] = []
    by_adamw = [each for each in trained if each.rule == ADAMW]
    by_muon = [each for each in trained if each.rule == MUON]
    rules.append(AdamW(by_adamw, config))
    if by_muon:
        rules.append(Muon(by_muon, config.momentum))
    return Optimizer(trained, rules, config.clip)
