"""Say for each parameter how it is trained: its share of the rate, its decay, by which rule.

A class may say so itself:

    def parameter_groups(self):
        return [
            {"params": [self.tokens.weight, self.head.weight], "times": 0.5, "optimizer": "adamw"},
            {"params": [block.qkv.weight for block in self.blocks], "parts": [64, 64, 64]},
            {"params": self.gains, "weight_decay": 0.0},
        ]

Each parameter stands in one group. `times` is a factor of the learning rate, 1 by default, and
`weight_decay` by default that of the recipe. The others matter under Muon alone: `optimizer:
adamw` leaves matrices to AdamW, and `parts` are the sizes of the matrices that lie side by side in
a fused one, along `axis` (-2, as in an nn.Linear, or -1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from dreamer_study.model.contract import Network
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.recipe import ADAMW, MUON
from dreamer_study.pipeline.errors import InputError, nearest

KEYS = ("params", "times", "weight_decay", "optimizer", "parts", "axis")
ROWS = -2  # the axis of outputs of an nn.Linear
NOT_MATRICES = (
    nn.Embedding,
    nn.EmbeddingBag,
    nn.modules.conv._ConvNd,
)
"""Modules whose weights are no linear map between hidden states, as Muon wants them."""


@dataclass(frozen=True)
class Trained:
    """A parameter and how it is trained.

    `rule` is "adamw" or "muon"; a class of the user's trains all parameters, whatever it says.
    `parts` are the sizes along `axis` of the matrices that are fused in it; none: it is one.
    """

    name: str
    parameter: nn.Parameter
    times: float
    weight_decay: float
    rule: str
    parts: tuple[int, ...] = ()
    axis: int = ROWS


def trained_parameters(model: Network, config: TrainingConfig) -> list[Trained]:
    """Say of each parameter that wants a gradient how it is trained, in the model's order.

    Raises InputError for groups that are none, and for Muon without a matrix.
    """
    own = model.parameter_groups()
    if own is None:
        own = _by_dimensions(model)
    group_of = _checked_groups(own, model)
    matrices = _matrices(model)
    trained = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        group = group_of[id(parameter)]
        rule = ADAMW
        if config.optimizer == MUON:
            usual = MUON if id(parameter) in matrices else ADAMW
            rule = group.get("optimizer", usual)
        trained.append(
            Trained(
                name,
                parameter,
                float(group.get("times", 1.0)),
                float(group.get("weight_decay", config.weight_decay)),
                rule,
                tuple(group.get("parts", ())),
                group.get("axis", ROWS),
            )
        )
    if config.optimizer == MUON and not any(each.rule == MUON for each in trained):
        raise InputError(
            f"{model.label}: optimizer is muon, but the class has no matrix that Muon can train,"
            " only embeddings, layers of vocabulary size, convolutions and vectors; use adamw"
        )
    return trained


def muon_share(trained: Iterable[Trained]) -> float:
    """Return the share of the parameters that Muon trains."""
    of_rule: dict[str, int] = {ADAMW: 0, MUON: 0}
    for each in trained:
        of_rule[each.rule] += each.parameter.numel()
    return of_rule[MUON] / sum(of_rule.values())


def _by_dimensions(model: Network) -> list[dict[str, Any]]:
    """Make the groups of a class that names none: decayed parameters, and the others."""
    decayed = list(model.decayed_parameters())
    ids = {id(parameter) for parameter in decayed}
    others = [parameter for parameter in model.parameters() if id(parameter) not in ids]
    return [{"params": decayed}, {"params": others, "weight_decay": 0.0}]


def _matrices(model: Network) -> set[int]:
    """Find the parameters that are matrices between hidden states, or banks of such matrices.

    Embeddings and layers of vocabulary size are none, nor are weights of convolutions.
    """
    excluded = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, NOT_MATRICES)
        for parameter in module.parameters(recurse=False)
    }
    vocabulary = model.config.vocabulary_size
    return {
        id(parameter)
        for parameter in model.parameters()
        if parameter.ndim in (2, 3)
        and min(parameter.shape[-2:]) > 1
        and vocabulary not in parameter.shape[-2:]
        and id(parameter) not in excluded
    }


def _checked_groups(groups: Any, model: Network) -> dict[int, Mapping[str, Any]]:
    """Return the group of each parameter, by its id.

    Raises InputError for groups that no optimiser could use, naming the class.
    """
    where = f"{model.label}: parameter_groups()"
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if isinstance(groups, str | Mapping) or not isinstance(groups, Iterable):
        raise InputError(f"{where} must list groups, but returned a {type(groups).__name__}")
    group_of: dict[int, Mapping[str, Any]] = {}
    for group in groups:
        if not isinstance(group, Mapping):
            raise InputError(f"{where} must list mappings, but has a {type(group).__name__}")
        _check_group(group, where)
        group = {**group, "params": _listed(group["params"])}
        for parameter in group["params"]:
            if not isinstance(parameter, nn.Parameter):
                raise InputError(f"{where} must list parameters, but has a {_kind(parameter)}")
            if id(parameter) not in names:
                raise InputError(
                    f"{where} has a parameter {list(parameter.shape)} that is not one of the"
                    " model's"
                )
            if id(parameter) in group_of:
                raise InputError(f"{where} has {names[id(parameter)]} twice")
            _check_matrix(group, parameter, f"{where}: {names[id(parameter)]}")
            group_of[id(parameter)] = group
    for identity, name in names.items():
        if identity not in group_of:
            raise InputError(f"{where} leaves out {name}, but each parameter must be in one group")
    return group_of


def _listed(params: Any) -> list[Any]:
    """List the parameters of a group, also of a single one or a generator."""
    if isinstance(params, Tensor):
        return [params]
    return list(params) if isinstance(params, Iterable) else [params]


def _kind(value: Any) -> str:
    return "Tensor that is no parameter" if isinstance(value, Tensor) else type(value).__name__


def _check_group(group: Mapping[str, Any], where: str) -> None:
    """Raise InputError for a key that no group has, or a value that is of no use."""
    for key in group:
        if key not in KEYS:
            raise InputError(f"{where}: unknown key {key!r}{nearest(key, KEYS, _valid())}")
    if "params" not in group:
        raise InputError(f"{where}: a group has no params")
    for key in ("times", "weight_decay"):
        value = group.get(key, 1.0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf:
            raise InputError(f"{where}: {key} is {value!r}, but it must be a number of 0 or more")
    rule = group.get("optimizer", ADAMW)
    if rule not in (ADAMW, MUON):
        near = nearest(rule, (ADAMW, MUON))
        raise InputError(f"{where}: optimizer is {rule!r}, but it must be adamw or muon{near}")
    if group.get("axis", ROWS) not in (-1, ROWS):
        raise InputError(f"{where}: axis is {group['axis']!r}, but it must be -1 or -2")
    parts = group.get("parts", ())
    are_sizes = isinstance(parts, Sequence) and all(
        type(size) is int and size > 0 for size in parts
    )
    if not are_sizes:
        raise InputError(f"{where}: parts is {parts!r}, but it must list sizes, as [64, 64, 64]")


def _valid() -> str:
    return f"; valid keys are {', '.join(KEYS)}"


def _check_matrix(group: Mapping[str, Any], parameter: nn.Parameter, where: str) -> None:
    """Raise InputError where a group asks of a parameter what only a matrix could do."""
    asks_for_muon = group.get("optimizer") == MUON
    parts = group.get("parts", ())
    if (asks_for_muon or parts) and parameter.ndim not in (2, 3):
        raise InputError(
            f"{where} has {parameter.ndim} dimensions, but Muon trains matrices, and banks of them"
        )
    if parts and sum(parts) != parameter.shape[group.get("axis", ROWS)]:
        axis = group.get("axis", ROWS)
        raise InputError(
            f"{where} has {parameter.shape[axis]} entries along axis {axis}, but its parts"
            f" {list(parts)} add up to {sum(parts)}"
        )
