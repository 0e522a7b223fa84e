"""Check before a training that a model can be trained by its recipe, and say what of it matters.

The methods of a class that training calls (`loss`, `auxiliary_loss`, `parameter_groups`) and an
optimizer of the user's: what is wrong with them is one line in the first seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dreamer_study.model.architectures.build import build
from dreamer_study.model.contract import Network
from dreamer_study.model.module_config import Architecture, DreamerConfig
from dreamer_study.model.ops import Documents
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.own_optimizer import check_own_optimizer, load_optimizer
from dreamer_study.model.training.parameter_groups import (
    Trained,
    muon_share,
    trained_parameters,
)
from dreamer_study.model.training.recipe import ADAMW, MUON
from dreamer_study.pipeline.errors import InputError

ROWS = 2
SHORT = 32  # tokens of the rows that are read
NEAR = 1e-3  # relative, between a class's loss and the cross entropy of its logits
TRIED = 32  # parameters on which a user's optimizer is tried; the largest number of values of each:
LARGEST = 2**20


@dataclass(frozen=True)
class Checked:
    """What a recipe means for a model: remarks, and the share of its parameters under Muon."""

    remarks: tuple[str, ...] = ()
    muon_share: float | None = None


def check_recipe(
    config: Architecture,
    recipe: dict[str, Any],
    *,
    code: Path | None = None,
    trust_code: bool = False,
) -> Checked:
    """Check that a model can be trained by an optimizer: the fields of TrainingConfig in `recipe`.

    Raises InputError for methods and classes that are of no use, naming them.
    """
    training = TrainingConfig(tokens=1, batch_tokens=1, **recipe)
    is_dreamer = isinstance(config, DreamerConfig)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build(config, code=code, trust_code=trust_code, empty=is_dreamer)
        trained = trained_parameters(model, training)
        remarks = [] if is_dreamer else _check_losses(model)
        if training.optimizer not in (ADAMW, MUON):
            kind = load_optimizer(training, code, trust_code=trust_code)
            remarks += check_own_optimizer(kind, _some_of(trained), training)
    share = muon_share(trained) if training.optimizer == MUON else None
    return Checked(tuple(remarks), share)


def _some_of(trained: list[Trained]) -> list[Trained]:
    """Make a few parameters of the shapes that are trained, for a trial."""
    small = [each for each in trained if each.parameter.numel() <= LARGEST][:TRIED]
    return [
        Trained(
            each.name,
            nn.Parameter(torch.randn(each.parameter.shape)),
            each.times,
            each.weight_decay,
            each.rule,
        )
        for each in small or trained[:1]
    ]


def _check_losses(model: Network) -> list[str]:
    """Run a class as a step of the training does; return remarks about its losses.

    Raises InputError for a loss that is no number, and for a class without gradients.
    """
    length = min(SHORT, model.config.sequence_length)
    tokens = torch.randint(model.config.vocabulary_size, (ROWS, length))
    try:
        model.eval()(tokens)
    except InputError:
        return []  # of a model without a kernel for a CPU, which its own check has named
    states = model.train().states(tokens, Documents(tokens)).flatten(0, 1)
    auxiliary = model.auxiliary_loss()
    remarks = _attributes(model) if auxiliary is None else []
    targets = tokens.roll(-1, dims=1).flatten()
    loss = model.loss(states, targets).detach()
    for name, value in (("loss", loss), ("auxiliary_loss", auxiliary)):
        if value is not None and not value.isfinite():
            raise InputError(
                f"{model.label}: {name} returned {value.item()}, which is not a finite number"
            )
    with torch.no_grad():
        usual = Network.loss(model, states, targets)
    if not torch.isclose(loss.float(), usual, rtol=NEAR):
        remarks.append(
            f"its own loss is {float(loss / usual):.3g} times the cross entropy of its logits, so"
            " its training losses cannot be compared with other models'"
        )
    return remarks


def _attributes(model: Network) -> list[str]:
    """Say where a module keeps an auxiliary loss that the class does not hand out."""
    of_library = getattr(getattr(model, "module", None), "model", None)
    if getattr(getattr(of_library, "config", None), "output_router_logits", False):
        return ["output_router_logits: the auxiliary loss of its routers is not trained on"]
    for name, module in model.named_modules():
        if getattr(module, "aux_loss", None) is not None:
            where = name.removeprefix("module").removeprefix(".")
            which = f"{where}.aux_loss" if where else "aux_loss"
            return [
                f"{which} is not trained on: hand it out by a method auxiliary_loss() of the class"
            ]
    return []
