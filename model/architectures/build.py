"""Build the network of a description: Dreamer, a user's class, or a transformers model."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import torch

from dreamer_study.model.architectures.code import (
    ModelFailed,
    described,
    late_imports,
    load_class,
)
from dreamer_study.model.architectures.module_state import check_state, kept_settings
from dreamer_study.model.architectures.wrapped import Wrapped
from dreamer_study.model.contract import Network
from dreamer_study.model.dreamer import Dreamer
from dreamer_study.model.module_config import Architecture, DreamerConfig, ModuleConfig
from dreamer_study.pipeline.errors import InputError


def build(
    config: Architecture,
    dtype: torch.dtype | None = None,
    *,
    code: Path | None = None,
    trust_code: bool = False,
    empty: bool = False,
) -> Network:
    """Build the network of a description, on the current device.

    `code` is the folder of its files, which are run with `trust_code` only. `empty` promises that
    all weights will be replaced: a Dreamer then has none. Raises InputError where the network
    cannot be built.
    """
    if isinstance(config, DreamerConfig):
        with torch.device("meta" if empty else torch.get_default_device()):
            return Dreamer(config, dtype=dtype)
    with kept_settings():
        return _build_module(config, dtype, code, trust_code=trust_code)


def _build_module(
    config: ModuleConfig, dtype: torch.dtype | None, code: Path | None, *, trust_code: bool
) -> Network:
    """Build a module of any origin."""
    kind = load_class(config, code, trust_code=trust_code)
    sizes = {"vocabulary_size": config.vocabulary_size, "sequence_length": config.sequence_length}
    try:
        with late_imports(config):
            module = kind(**sizes, **config.config)
        network = Wrapped(module, config, dtype)
        check_state(network)
        return network
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # any error of the user's code
        # Where the call itself has failed, before any code of the user: the arguments are wrong.
        here = error.__traceback__
        if isinstance(error, TypeError) and here and not here.tb_next:
            raise ModelFailed(
                f"{config.module}: {error}; it takes {', '.join(signature(kind).parameters)}"
            ) from error
        raise ModelFailed(f"{config.module} cannot be built: {described(error, kind)}") from error
