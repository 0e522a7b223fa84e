"""Wrap a network from outside, for less memory or for fewer kernels: the network itself knows of neither.

Both functions change the model in place.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from model import ops
from model.dreamer import Block, Dreamer, ExpertAttention
from model.ops.torch_kernels.routing import GROUPS


def recompute_activations(model: Dreamer) -> None:
    """Recompute each depth in the backward pass instead of keeping its activations (activation checkpointing)."""
    model.layer = MethodType(_recomputed, model)  # a method, so that a copy of the model recomputes its own layers


def _recomputed(model: Dreamer, block: Block, x: Tensor, *others: Any) -> Any:
    if not torch.is_grad_enabled():
        return Dreamer.layer(model, block, x, *others)
    engine = ops.engine_of(x)  # also where the backward pass runs in another thread, or behind an `ops.engine` block
    arguments = (engine, model, block, x, *others)
    return checkpoint(_layer_by, *arguments, use_reentrant=False, context_fn=_keep_selections)


def _layer_by(engine: str, model: Dreamer, *arguments: Any) -> Any:
    with ops.engine(engine):
        return Dreamer.layer(model, *arguments)


def _keep_selections() -> tuple[Any, Any]:
    """Save the outputs of topk, argmax and sort, so that a recomputed layer selects the same experts.

    The native engine chooses again, with the same result to the bit.
    """
    kept = [torch.ops.aten.topk.default, torch.ops.aten.argmax.default, torch.ops.aten.sort.stable]
    return create_selective_checkpoint_contexts(kept)


def compile_parts(model: Dreamer, **options: Any) -> None:
    """Let `torch.compile` fuse the parts of each attention that do not change their shape from depth to depth.

    `options` are those of torch.compile. One graph serves all depths. Worth the time on a GPU only.
    """
    model.norm = torch.compile(model.norm, **options)
    for block in model.blocks:
        for attention in block.attentions.values():
            if isinstance(attention, ExpertAttention):
                if len(attention.inward) <= GROUPS:  # with more, the host reads how the experts are split
                    attention.forward = torch.compile(attention.forward, **options)
            elif hasattr(attention, "project_in"):
                attention.project_in = torch.compile(attention.project_in, **options)
                attention.project_out = torch.compile(attention.project_out, **options)
                attention.forward = _by_torch(attention.forward)


def _by_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that the engine "torch" computes it, so that no fused kernel passes by the compiled parts."""

    def forced(*arguments: Any) -> Any:
        with ops.engine("torch"):
            return function(*arguments)

    return forced
