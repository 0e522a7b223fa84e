"""Make a network of any module, with the contract's defaults for what the module lacks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from dreamer_study.model.architectures.code import described
from dreamer_study.model.contract import OPTIONAL, Network
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.model.ops import Documents
from dreamer_study.pipeline.errors import InputError


class Wrapped(Network):
    """A module of any origin as a network, with defaults for the methods that it lacks."""

    config: ModuleConfig

    def __init__(
        self, module: nn.Module, config: ModuleConfig, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.module = module
        self.config = config
        self.dtype = dtype
        parameters = signature(module.forward).parameters
        self._given = [name for name in ("documents", "positions") if name in parameters]
        for name in OPTIONAL:
            own = getattr(module, name, None)
            # a layer called `logits` is no method
            if not callable(own) or isinstance(own, nn.Module):
                continue
            if name in ("states", "logits"):
                own = partial(self._run, name, own)
            setattr(self, name, own)
        if ("states" in vars(self)) != ("logits" in vars(self)):
            raise InputError(
                f"{config.module} has one of states and logits; define both, or forward alone"
            )

    @property
    def reads_documents(self) -> bool:
        """Whether the model distinguishes the documents of a row."""
        reads = getattr(self.module, "states", self.module.forward)
        return "documents" in signature(reads).parameters

    def states(
        self, tokens: Tensor, documents: Documents | None = None, depth: int | None = None
    ) -> Tensor:
        """Compute the logits [B, S, V], in the precision of the matrix products."""
        asked: dict[str, Tensor | None] = {}
        if documents is not None:
            of_row = {"documents": documents.labels, "positions": documents.positions}
            asked = {name: of_row[name] for name in self._given}
        logits = self._run("forward", self.module, tokens, **asked)
        expected = (*tokens.shape, self.config.vocabulary_size)
        if logits.shape != expected:
            raise InputError(
                f"{self.config.module}: forward returned {list(logits.shape)}, but must return [B,"
                f" S, V], here {list(expected)}"
            )
        return logits

    def _run(
        self, name: str, own: Callable[..., Tensor], given: Tensor, *others: Any, **named: Any
    ) -> Tensor:
        """Call a method of the class in the precision of the matrix products.

        Raises InputError where the method fails.
        """
        narrow = self.dtype == torch.bfloat16
        try:
            with torch.autocast(given.device.type, torch.bfloat16) if narrow else nullcontext():
                return own(given, *others, **named)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # of the user's code, whatever it is
            what = "states" if name == "logits" else "tokens"
            raise InputError(
                f"{self.config.module}: {name} of {list(given.shape)} {what} failed:"
                f" {described(error)}"
            ) from error
