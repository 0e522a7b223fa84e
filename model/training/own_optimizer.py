"""Train by an optimizer in a file of the user's: a `torch.optim.Optimizer`.

It is built as `Class(groups, lr=..., **optimizer_config)`, where each group has `params`, `lr` and
`weight_decay`. Its rate is set before each step, gradients are clipped before, and its state must
be tensors by parameter: all that the next step depends on, so that a run resumes to the bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dreamer_study.model.architectures.code import described, load_from_file
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.parameter_groups import Trained
from dreamer_study.pipeline.errors import InputError

OWN = "own"  # begins the names of its state
TRIED_STEPS = 2  # before its state is taken over by another
OF_THE_RATE = ("lr", "initial_lr", "params")


def load_optimizer(config: TrainingConfig, code: Path | None, *, trust_code: bool) -> type:
    """Load the class of a user's optimizer.

    Raises InputError where code is not trusted, has changed, or has no such optimizer.
    """
    kind = load_from_file(config.optimizer, config.optimizer_files, code, trust_code=trust_code)
    if not issubclass(kind, torch.optim.Optimizer):
        raise InputError(f"{config.optimizer} must be a subclass of torch.optim.Optimizer")
    return kind


class OwnOptimizer:
    """A user's optimizer over all parameters."""

    def __init__(self, kind: type, trained: Sequence[Trained], config: TrainingConfig) -> None:
        self._class = config.optimizer
        self._parameters = {each.name: each.parameter for each in trained}
        by_settings: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
        for each in trained:
            by_settings[each.times, each.weight_decay].append(each.parameter)
        self._times = [times for times, _ in by_settings]
        groups = [
            {"params": parameters, "lr": config.learning_rate * times, "weight_decay": decay}
            for (times, decay), parameters in by_settings.items()
        ]
        try:
            self._optimizer = kind(groups, lr=config.learning_rate, **config.optimizer_config)
        except Exception as error:  # any error of the user's code
            here = error.__traceback__
            if isinstance(error, TypeError) and here and not here.tb_next:
                raise InputError(
                    f"{self._class}: {error}; it takes {', '.join(signature(kind).parameters)}"
                ) from error
            raise InputError(f"{self._class} cannot be built: {described(error)}") from error

    @property
    def decays(self) -> bool:
        """Whether the class knows of a weight decay."""
        return "weight_decay" in self._optimizer.defaults

    def settings(self) -> list[dict[str, Any]]:
        """Return what its groups hold besides parameters and rates."""
        return [
            {name: value for name, value in group.items() if name not in OF_THE_RATE}
            for group in self._optimizer.param_groups
        ]

    def step(self, learning_rate: float, shrink: Tensor) -> None:
        """Update the parameters that have a gradient, which is divided by `shrink`."""
        for parameter in self._parameters.values():
            if parameter.grad is not None:
                parameter.grad.div_(shrink)
        for group, times in zip(self._optimizer.param_groups, self._times, strict=True):
            group["lr"] = learning_rate * times
        try:
            with torch.enable_grad():
                self._optimizer.step()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # any error of the user's code
            raise InputError(f"{self._class}: its step failed: {described(error)}") from error

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state by name, for saving.

        Raises InputError for a state that is no tensor.
        """
        found: dict[str, Tensor] = {}
        for name, parameter in self._parameters.items():
            for kind, value in self._optimizer.state.get(parameter, {}).items():
                if not isinstance(value, Tensor):
                    raise InputError(
                        f"{self._class}: its state {kind!r} is a {type(value).__name__}, but it"
                        " must be a tensor to be saved and resumed, as torch.tensor(0.0)"
                    )
                found[f"{OWN}.{kind}.{name}"] = value
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take a saved state of the same model."""
        for key, tensor in tensors.items():
            origin, _, rest = key.partition(".")
            kind, _, name = rest.partition(".")
            if origin == OWN:
                parameter = self._parameters[name]
                device = torch.device("cpu") if self._on_host(kind) else parameter.device
                self._optimizer.state[parameter][kind] = tensor.to(device, copy=True)

    def _on_host(self, kind: str) -> bool:
        """Tell whether a state lies on the host: by torch's convention a count of steps does."""
        defaults = self._optimizer.defaults
        return kind == "step" and not (defaults.get("capturable") or defaults.get("fused"))


def check_own_optimizer(
    kind: type, trained: Sequence[Trained], config: TrainingConfig
) -> list[str]:
    """Take a few steps, then one more by the optimizer and by another that resumes its state.

    Returns remarks. Raises InputError where the two differ: its state is not all in
    tensors. The parameters are changed.
    """
    ours = OwnOptimizer(kind, trained, config)
    settings = ours.settings()
    for step in range(TRIED_STEPS):
        _step_by_random_gradients(ours, trained, config, step)
    saved = {name: tensor.detach().clone() for name, tensor in ours.tensors().items()}
    if ours.settings() != settings:
        raise InputError(
            f"{config.optimizer}: its steps change its groups, which are not saved; keep everything"
            " that changes as tensors in its state"
        )
    twins = [
        Trained(
            each.name,
            nn.Parameter(each.parameter.detach().clone()),
            each.times,
            each.weight_decay,
            each.rule,
        )
        for each in trained
    ]
    resumed = OwnOptimizer(kind, twins, config)
    resumed.load(saved)
    _step_by_random_gradients(ours, trained, config, TRIED_STEPS)
    _step_by_random_gradients(resumed, twins, config, TRIED_STEPS)
    for each, twin in zip(trained, twins, strict=True):
        if not torch.equal(each.parameter, twin.parameter):
            raise InputError(
                f"{config.optimizer}: a step after a resume differs from a step without; keep"
                " everything that its steps depend on as tensors in its state"
            )
    if config.weight_decay and not ours.decays:
        return [f"{config.optimizer} knows no weight_decay, so no weight decays"]
    return []


def _step_by_random_gradients(
    optimizer: OwnOptimizer, trained: Sequence[Trained], config: TrainingConfig, step: int
) -> None:
    generator = torch.Generator().manual_seed(step)
    for each in trained:
        drawn = torch.randn(each.parameter.shape, generator=generator)
        each.parameter.grad = drawn.to(each.parameter)
    optimizer.step(config.learning_rate, torch.ones(()))
    for each in trained:
        each.parameter.grad = None
