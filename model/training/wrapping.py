"""Wrap a network from outside, for less memory or for fewer kernels: the network itself knows of neither.

Both functions change the model in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from model import ops
from model.dreamer import Dreamer, ExpertAttention
from model.ops.torch_kernels.routing import GROUPS


def recompute_activations(model: Dreamer) -> None:
    """Recompute each depth in the backward pass instead of keeping its activations (activation checkpointing)."""
    layer = model.layer

    def recomputed(*arguments: Any) -> Any:
        if not torch.is_grad_enabled():
            return layer(*arguments)
        return checkpoint(layer, *arguments, use_reentrant=False, context_fn=_keep_selections)

    model.layer = recomputed


def _keep_selections() -> tuple[Any, Any]:
    """Keep the experts that torch's operations have chosen: a depth cannot be recomputed with others.

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
    """The function computed by the engine "torch", so that no fused kernel passes by the compiled parts."""

    def forced(*arguments: Any) -> Any:
        with ops.engine("torch"):
            return function(*arguments)

    return forced
