"""Make a network of any module, with the contract's defaults for what the module lacks."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn

from dreamer_study.model.architectures.code import ModelFailed, described, late_imports
from dreamer_study.model.architectures.documents_apart import read_apart
from dreamer_study.model.contract import OPTIONAL, Network
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.model.ops import Documents
from dreamer_study.pipeline.errors import InputError

STOPPED = 128 + signal.SIGTERM  # the exit status of a process that was asked to end


def _logits_of(output: Any) -> Any:
    """Take the logits of what a `forward` returns: of a ModelOutput, or the first of a tuple."""
    if isinstance(output, tuple | list) and output:
        return output[0]
    return getattr(output, "logits", output)


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
        kinds = {parameter.kind for parameter in parameters.values()}
        # a `forward` that takes its tokens as `input_ids` alone, by the convention of transformers
        self._by_keyword = "input_ids" in parameters and not kinds & {
            Parameter.POSITIONAL_ONLY,
            Parameter.POSITIONAL_OR_KEYWORD,
        }
        self._own_states: Callable[..., Tensor] | None = None
        self._own_loss: Callable[..., Any] | None = None
        self._own_auxiliary_loss: Callable[[], Any] | None = None
        # auxiliary losses of the newest forward passes, each with the tokens that it read
        self._auxiliary: list[tuple[Tensor, int]] = []
        for name in OPTIONAL:
            own = getattr(module, name, None)
            # a layer called `logits` is no method
            if not callable(own) or isinstance(own, nn.Module):
                continue
            if len(config.files) > 1:
                own = partial(self._importing, own)
            if name in ("states", "logits"):
                own = partial(self._run, name, own)
            if name == "states":
                self._own_states = own
            elif name == "loss":
                self._own_loss = own
            elif name == "auxiliary_loss":
                self._own_auxiliary_loss = own
            else:
                setattr(self, name, own)
        if callable(getattr(module, "parameter_groups", None)) and callable(
            getattr(module, "decayed_parameters", None)
        ):
            raise InputError(
                f"{config.module} has both parameter_groups and decayed_parameters; define one"
            )
        reader = signature(getattr(module, "states", module.forward)).parameters
        # Whether the class distinguishes the documents of a row by itself.
        self.reads_documents = "documents" in reader
        self._takes_depth = "depth" in reader
        if (self._own_states is not None) != ("logits" in vars(self)):
            raise InputError(
                f"{config.module} has only one of states and logits; define both, or only forward"
            )

    def states(
        self, tokens: Tensor, documents: Documents | None = None, depth: int | None = None
    ) -> Tensor:
        """Compute the states [B, S, H], or the logits where the class has `forward` alone.

        A class that does not distinguish documents reads each of them as a row of its own.
        """
        self._auxiliary = []  # also what a pass that failed has left
        if documents is None or documents.labels is None or self.reads_documents:
            return self._read(tokens, documents, depth)
        return read_apart(partial(self._read_alone, depth=depth), tokens, documents.labels)

    def _read_alone(self, tokens: Tensor, depth: int | None) -> Tensor:
        """Read rows [B, S] of one document each, with positions where the class takes them."""
        documents = Documents(tokens) if "positions" in self._given else None
        return self._read(tokens, documents, depth)

    def loss(self, states_WH: Tensor, targets_W: Tensor, *, compiled: bool = False) -> Tensor:
        """Sum the losses of the target tokens, by the class's own method if it has one."""
        if self._own_loss is None:
            return super().loss(states_WH, targets_W, compiled=compiled)
        value = self._run("loss", self._own_loss, states_WH, targets_W)
        return self._one_number("loss", value, "the sum over the targets, in nats")

    def auxiliary_loss(self) -> Tensor | None:
        """Return what the class adds to the mean loss of a micro-batch, and forget it.

        A class that reads documents apart has several forward passes in one; they count by the
        tokens that they have read.
        """
        if not self._auxiliary:
            return None
        values = [value for value, _ in self._auxiliary]
        tokens = [count for _, count in self._auxiliary]
        self._auxiliary = []
        if len(values) == 1:
            return values[0]
        weights = torch.tensor(tokens, device=values[0].device) / sum(tokens)
        return (torch.stack(values) * weights).sum()

    def _take_auxiliary_loss(self, tokens: Tensor) -> None:
        """Ask the class for its auxiliary loss of the forward pass that has just ended."""
        if self._own_auxiliary_loss is None or not self.training or not torch.is_grad_enabled():
            return
        try:
            value = self._own_auxiliary_loss()
        except Exception as error:  # any error of the user's code
            raise self.failed("auxiliary_loss", error) from error
        number = self._one_number("auxiliary_loss", value, "in nats a token")
        self._auxiliary.append((number, tokens.numel()))

    def _one_number(self, name: str, value: Any, what: str) -> Tensor:
        """Return one number as a scalar. Raises InputError for anything else."""
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.is_floating_point():
            given = type(value).__name__
            if isinstance(value, Tensor):
                given = f"tensor {list(value.shape)} of {value.dtype}"
            raise InputError(
                f"{self.config.module}: {name} returned a {given}, but must return one number as a"
                f" tensor: {what}"
            )
        return value.reshape(()).float()

    def _read(self, tokens: Tensor, documents: Documents | None, depth: int | None) -> Tensor:
        """Read rows [B, S], and note the auxiliary loss of the pass, if the class has one."""
        states = self._forward_pass(tokens, documents, depth)
        self._take_auxiliary_loss(tokens)
        return states

    def _forward_pass(
        self, tokens: Tensor, documents: Documents | None, depth: int | None
    ) -> Tensor:
        """Read rows [B, S] by the class's own methods, in the precision of the matrix products."""
        if self._own_states is not None:
            named: dict[str, Any] = {"depth": depth} if self._takes_depth else {}
            if self.reads_documents:
                named["documents"] = documents
            return self._own_states(tokens, **named)
        asked: dict[str, Tensor | None] = {}
        if documents is not None:
            of_row = {"documents": documents.labels, "positions": documents.positions}
            asked = {name: of_row[name] for name in self._given}
        logits = _logits_of(self._run("forward", self._forward, tokens, **asked))
        expected = [*tokens.shape, self.config.vocabulary_size]
        returned = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        if returned != expected:
            raise ModelFailed(
                f"{self.config.module}: forward returned {returned}, but must return [B, S, V],"
                f" here {expected}"
            )
        if not logits.is_floating_point():
            raise ModelFailed(
                f"{self.config.module}: forward returned logits of {logits.dtype}, but must return"
                " real numbers"
            )
        return logits

    def _forward(self, tokens: Tensor, **asked: Any) -> Any:
        with late_imports(self.config):
            if self._by_keyword:
                return self.module(input_ids=tokens, **asked)
            return self.module(tokens, **asked)

    def _importing(self, own: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call a method of the class, which may import files of its folder."""
        with late_imports(self.config):
            return own(*given, **named)

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
        except (torch.OutOfMemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:  # any error of the user's code
            if isinstance(error, SystemExit) and error.code == STOPPED:
                raise
            what = "states" if name in ("logits", "loss") else "tokens"
            raise self.failed(f"{name} of {list(given.shape)} {what}", error) from error

    def failed(self, what: str, error: BaseException) -> ModelFailed:
        """Describe an error of the user's code in a line, whatever the error is."""
        place = described(error, type(self.module))
        return ModelFailed(f"{self.config.module}: {what} failed: {place}")
