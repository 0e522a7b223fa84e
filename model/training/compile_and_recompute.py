"""Wrap a network from outside, for less memory or for fewer kernels.

The network itself knows of neither. Both functions change the model in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import MethodType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from dreamer_study.model import ops
from dreamer_study.model.contract import Network
from dreamer_study.model.dreamer import (
    Block,
    Context,
    DepthAttention,
    Dreamer,
    History,
    SequenceAttention,
    Weights,
)
from dreamer_study.model.layers.experts import RoutedExperts
from dreamer_study.model.ops import Attended, Routing
from dreamer_study.model.ops.gpu import compile_for_many_shapes, on_gpu

KNOWN = (SequenceAttention, DepthAttention, RoutedExperts)


def recompute_activations(model: Network) -> None:
    """Recompute each depth of Dreamer in the backward pass instead of keeping its activations.

    Another model is left as it is.
    """
    if isinstance(model, Dreamer):
        # a method, so that a copy of the model recomputes its own layers
        model.layer = MethodType(_recomputed, model)


def _recomputed(model: Dreamer, block: Block, x: Tensor, *others: Any) -> Any:
    """Compute a layer now, and again in the backward pass."""
    if not torch.is_grad_enabled():
        return Dreamer.layer(model, block, x, *others)
    # By the same engine both times, also where the backward pass runs in another thread, or after
    # the end of an `ops.engine` block.
    engine = ops.engine_of(x)
    return checkpoint(
        _layer_by,
        engine,
        model,
        block,
        x,
        *others,
        use_reentrant=False,
        context_fn=partial(_keep_selections, on_gpu(x)),
    )


def _layer_by(engine: str, model: Dreamer, *arguments: Any) -> Any:
    with ops.engine(engine):
        return Dreamer.layer(model, *arguments)


def _keep_selections(gpu: bool) -> tuple[Any, Any]:
    """Save the outputs of topk, argmax and sort: a recomputed layer selects the same experts.

    The native engine chooses again, with the same result to the bit. Attention over packed
    documents is saved too: its cost grows with their length, its output does not.
    """
    kept = [torch.ops.aten.topk.default, torch.ops.aten.argmax.default, torch.ops.aten.sort.stable]
    if gpu:
        # The import registers the operation; it also loads the compiler, which takes seconds.
        import_module("torch.nn.attention.varlen")
        kept.append(torch.ops.torch_attn._varlen_attn.default)
    return create_selective_checkpoint_contexts(kept)


def compiles(wanted: bool | None, device: torch.device) -> bool:
    """Tell whether a training compiles: on a GPU only.

    Where nobody has said what is `wanted`: if torch's compiler has Triton.
    """
    if not on_gpu(device):
        return False
    return find_spec("triton") is not None if wanted is None else wanted


def compile_parts(model: Network, **options: Any) -> None:
    """Let `torch.compile` fuse all of each block but the attention along the sequence.

    That attention is one kernel already. `options` are those of torch.compile. The graphs serve all
    depths and layers, but for attention along the depth, which has one for each number of depths.
    Worth the time on a GPU only.
    """
    if not isinstance(model, Dreamer):
        return  # nobody has measured what compiling gains for other models
    model.norm = compile_for_many_shapes(model.norm, **options)
    parts = Compiled(
        compile_for_many_shapes(_part, **options),
        compile_for_many_shapes(DepthAttention.attend, **options),
    )
    for block in model.blocks:
        # other kinds of attention need their context, which the parts do not get
        if all(isinstance(attention, KNOWN) for attention in block.attentions.values()):
            block.forward = MethodType(partial(_by_parts, parts), block)


class Compiled(NamedTuple):
    """What is compiled of every block."""

    part: Callable[..., Any]
    attend_depth: Callable[..., Attended]


def _by_parts(
    compiled: Compiled,
    block: Block,
    x: Tensor,
    weights: dict[str, Weights],
    context: Context,
    histories: dict[str, History],
) -> tuple[Tensor, dict[str, Attended]]:
    """Run a block in parts, and attend between them.

    Example: a block of the order (("depth", "sequence"), ("experts",)) begins depth and sequence in
    the first part, attends, and finishes both in the second part, which also computes the experts.
    """
    codes = {"sequence": context.position_code, "depth": context.depth_code}
    attends = {"sequence": SequenceAttention.attend, "depth": compiled.attend_depth}
    results: dict[str, Attended] = {}
    number = 0  # of the group of attentions in hand
    attended: AttendedValues | None = None
    with ops.engine("torch"):  # no fused kernel passes by the compiled parts
        while True:
            x, outputs, begun, number = compiled.part(block, number, x, attended, weights, codes)
            for name, output in outputs.items():
                results[name] = results.get(name, output)._replace(output=output.output)
            if not begun:
                return x, results
            attended = {}
            for name, (query, key, value, routing) in begun.items():
                attention = block.attentions[name]
                history = histories.get(name, ())
                result = attends[name](attention, query, key, value, context, history)
                attended[name] = result.output, routing
                results[name] = result._replace(ids=routing.ids)


Begun = dict[str, tuple[Any, ...]]
"""The heads and the routing of the attentions of a group that have projections, by name."""

AttendedValues = dict[str, tuple[Tensor, Routing]]
"""What these attentions have attended, by name, and their routing."""


def _part(
    block: Block,
    number: int,
    x: Tensor,
    attended: AttendedValues | None,
    weights: dict[str, Weights],
    codes: dict[str, Tensor],
) -> tuple[Tensor, dict[str, Attended], Begun, int]:
    """Compute what lies between two attentions: finish the group that has attended, begin the next.

    `number` is that of the group. Returns the residual stream, the outputs, what has begun (nothing
    at the end of the block), and the number of its group.
    """
    outputs: dict[str, Attended] = {}
    while number < len(block.order):
        begun = {} if attended else _begin(block, number, x, weights, codes)
        if begun:
            return x, outputs, begun, number
        x, finished = _finish(block, number, x, attended or {}, weights)
        outputs |= finished
        number += 1
        attended = None
    return x, outputs, {}, number


def _begin(
    block: Block, number: int, x: Tensor, weights: dict[str, Weights], codes: dict[str, Tensor]
) -> Begun:
    """Project x to the queries, keys and values of each attention in a group.

    Expert attention has no projections: a group of it alone begins nothing.
    """
    begun: Begun = {}
    for name in block.order[number]:
        attention = block.attentions[name]
        if not isinstance(attention, RoutedExperts):
            begun[name] = attention.project_in(x, weights[name], codes[name])
    return begun


def _finish(
    block: Block, number: int, x: Tensor, attended: AttendedValues, weights: dict[str, Weights]
) -> tuple[Tensor, dict[str, Attended]]:
    """Project what a group has attended, compute its experts, and add all to x.

    Returns also the outputs of the group.
    """
    outputs: dict[str, Attended] = {}
    for name in block.order[number]:
        attention = block.attentions[name]
        if name in attended:
            values, routing = attended[name]
            outputs[name] = Attended(
                attention.project_out(values, weights[name], routing), routing.ids
            )
        else:
            outputs[name] = attention(x, weights[name], None, ())
    return sum((output.output for output in outputs.values()), start=x), outputs
