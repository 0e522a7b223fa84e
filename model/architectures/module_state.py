"""What a module holds besides its parameters, and what its code changes of the whole process.

A state that is saved holds tensors alone, so what else a module keeps is named.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from dreamer_study.model.architectures.code import ModelFailed
from dreamer_study.model.contract import Network
from dreamer_study.model.module_config import ModuleConfig

OF_TORCH = frozenset(vars(nn.Module()))  # attributes that every module has
MOST_NAMED = 3  # values in a message

SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch.set_default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch.set_grad_enabled": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch.set_num_threads": (torch.get_num_threads, torch.set_num_threads),
    "torch.set_float32_matmul_precision": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "torch.use_deterministic_algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
}
"""Settings of the whole process, by what changes them: another run may come after this one."""


@contextmanager
def kept_settings() -> Iterator[None]:
    """Leave the settings of the process as they were before the block."""
    before = {name: read() for name, (read, _) in SETTINGS.items()}
    try:
        yield
    finally:
        for name, (read, write) in SETTINGS.items():
            if read() != before[name]:
                write(before[name])


@contextmanager
def on_one_core() -> Iterator[None]:
    """Compute on one core: threads that wait for each other cost a busy machine minutes."""
    with kept_settings():
        torch.set_num_threads(1)
        yield


@contextmanager
def ending_no_process() -> Iterator[None]:
    """Let `os._exit`, by which code of the block would end the study without a word, raise
    SystemExit."""
    with patch.object(os, "_exit", sys.exit):
        yield


@contextmanager
def unchanged_settings(name: str) -> Iterator[None]:
    """Raise ModelFailed where the block, which runs a model, leaves a setting of the process
    changed."""
    before = {setting: read() for setting, (read, _) in SETTINGS.items()}
    changed = []
    with kept_settings():
        yield
        changed = [setting for setting, (read, _) in SETTINGS.items() if read() != before[setting]]
    if changed:
        raise ModelFailed(
            f"{name}: calls {changed[0]} while it runs, which is of the whole process and of other"
            " models; leave that out, or undo the change before forward returns"
        )


def check_state(model: Network) -> None:
    """Raise ModelFailed for a module whose state is not made of tensors with shapes."""
    config = model.config
    assert isinstance(config, ModuleConfig), "the bundled model needs no check"
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if is_lazy(tensor):
            raise ModelFailed(
                f"{config.module}: {name.removeprefix('module.')} has no shape before a forward"
                " pass, as in nn.LazyLinear; give its sizes"
            )
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor):
            raise ModelFailed(
                f"{config.module}: its state_dict has {name.removeprefix('module.')}, a"
                f" {type(value).__name__}, and a run saves tensors alone; register a buffer in"
                " place of get_extra_state"
            )


@contextmanager
def without_gradients(model: nn.Module) -> Iterator[list[str]]:
    """Yield a list of names, to which the block adds modules that run while gradients are off."""
    names: list[str] = []
    hooks = []
    for name, module in model.named_modules():
        if any(parameter.requires_grad for parameter in module.parameters(recurse=False)):

            def note(*_: Any, name: str = name.removeprefix("module.")) -> None:
                if not torch.is_grad_enabled() and name not in names:
                    names.append(name)

            hooks.append(module.register_forward_pre_hook(note))
    try:
        yield names
    finally:
        for hook in hooks:
            hook.remove()


def plain_values(model: nn.Module) -> dict[str, Any]:
    """Read the values that modules keep as plain attributes, which no state holds, by name."""
    values: dict[str, Any] = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in OF_TORCH:
                values[f"{path}.{name}".removeprefix("module.")] = _comparable(value)
    return values


def changed_values(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Name the values that are others now, or new."""
    return [name for name in now if now[name] is not None and now[name] != before.get(name)]


def first_of(names: list[str]) -> str:
    """List names, in a message, of which there may be many."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _comparable(value: Any) -> Any:
    """Turn a value into one that can be kept and compared; None for what is no value.

    A tensor that has a gradient's history is the result of a call, such as an auxiliary loss.
    """
    if isinstance(value, Tensor):
        is_result = value.requires_grad or value.is_meta
        return None if is_result else (tuple(value.shape), value.detach().clone().tolist())
    if isinstance(value, torch.Generator):
        return value.get_state().tolist()
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_comparable(entry) for entry in value]
    if isinstance(value, dict):
        return {str(name): _comparable(entry) for name, entry in value.items()}
    return None
