"""The engine "native": operations in C for one CPU core, and whole attentions in one call each way.

Functions that are not here, or that a size rules out, are those of torch_kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dreamer_study.model.ops import torch_kernels
from dreamer_study.model.ops.native.functions import (
    NativeAttendDepth,
    NativeAttendSequence,
    NativeHeads,
    NativeKeys,
    NativeMixedProduct,
    NativeRMSNorm,
    NativeRoute,
)
from dreamer_study.model.ops.native.fused import NativeAttention, NativeExperts
from dreamer_study.model.ops.native.library import available
from dreamer_study.model.ops.native.shared_gradient import SharedWeights
from dreamer_study.model.ops.torch_kernels import cross_entropy_sum, gradient_taps, swiglu_experts
from dreamer_study.model.ops.torch_kernels.routing import dispatch
from dreamer_study.model.ops.types import (
    Attended,
    AttentionOperands,
    Documents,
    ExpertOperands,
    Routing,
    Visible,
)

# tokens of a row without documents: torch's attention in blocks is faster on longer ones
LONG = 1024


def rms_norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """Normalise x in one pass."""
    return NativeRMSNorm.apply(x, gain, epsilon)


def split_heads(
    projected: Tensor,
    query_gain: Tensor,
    key_gain: Tensor,
    heads: tuple[int, int],
    epsilon: float,
    code: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Split projections into heads, rotate and normalise them in one pass."""
    return NativeHeads.apply(projected, query_gain, key_gain, code, epsilon, *heads)


def routing_keys(
    query: Tensor, query_gain: Tensor, keys: Tensor, epsilon: float, code: Tensor | None
) -> list[tuple[Tensor, Tensor]]:
    """Prepare the keys of all depths in one call; the form is that of torch_kernels."""
    return [(query, prepared) for prepared in NativeKeys.apply(keys, query_gain, code, epsilon)]


def route(
    x: Tensor,
    keys: tuple[Tensor, Tensor],
    bias: Tensor,
    active: int,
    normalised: bool,
    epsilon: float,
) -> Routing:
    """Choose experts in C; torch sorts tokens by them."""
    scores, ids = NativeRoute.apply(x.to(bias.dtype), *keys, bias, active, normalised, epsilon)
    return Routing(ids, scores, dispatch(ids, len(bias)))


def mixed_weights(
    weights: Tensor, shared: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Merge the weights, and give them one gradient for all depths."""
    merged, shared = torch_kernels.mixed_weights(weights, shared, dtype)
    return _with_one_gradient(merged), shared


def mixed_product(x: Tensor, routing: Routing, weights: tuple[Tensor, Tensor | None]) -> Tensor:
    """Multiply by each token's expert in C, where the matrices are small enough."""
    if not _small(weights[0]):
        return torch_kernels.mixed_product(x, routing, weights)
    scores = routing.scores.to(x.dtype)
    pairs = routing.dispatch
    return NativeMixedProduct.apply(x, scores, *weights, pairs.tokens, pairs.ends)


def expert_weights(weights: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast the weights, and give them one gradient for all depths."""
    return _with_one_gradient(weights.to(dtype))


def _with_one_gradient(weights: Tensor) -> Tensor:
    return SharedWeights.apply(weights) if weights.requires_grad else weights


def attend_sequence(query: Tensor, key: Tensor, value: Tensor, visible: Visible) -> Tensor:
    """Attend along the sequence in C, where the rows are not too long."""
    if not _takes(visible):
        return torch_kernels.attend_sequence(query, key, value, visible)
    return NativeAttendSequence.apply(query, key.flatten(0, 1), value.flatten(0, 1), visible.starts)


def attend_depth(
    query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Attend along the depth in C."""
    return NativeAttendDepth.apply(query, *keys, *values)


def whole_attention(operands: ExpertOperands | AttentionOperands) -> Attended | None:
    """Compute an attention in one call, from its norm to its output.

    None where a size rules that out.
    """
    if isinstance(operands, ExpertOperands):
        x, gain, keys, bias, inward, outward, active, epsilon = operands
        if not _small(inward, outward):
            return None
        return Attended(
            *NativeExperts.apply(x, gain, *keys, bias, inward, outward, active, epsilon)
        )
    x, gain, keys, bias, inward, outward, *gains, code, heads, epsilon, visible, history = operands
    if not _small(inward[0], outward[0]) or not (visible is None or _takes(visible)):
        return None
    output, ids, key, value, scores = NativeAttention.apply(
        x,
        gain,
        *keys,
        bias,
        *inward,
        *outward,
        *gains,
        code,
        visible and visible.starts,
        epsilon,
        *heads,
        *(earlier_key for earlier_key, _ in history),
        *(earlier_value for _, earlier_value in history),
    )
    if visible:  # along the sequence
        return Attended(output, ids)
    return Attended(output, ids, (*history, (key, value)), scores)


def _takes(visible: Visible) -> bool:
    """Tell whether the C attention takes these keys.

    It takes packed documents, and rows of at most LONG tokens.
    """
    if not isinstance(visible, Documents):
        return False
    return visible.labels is not None or visible.length <= LONG


def _small(*weights: Tensor) -> bool:
    """Tell whether matrices [..., I, O] fit into a cache.

    Only such matrices are multiplied at least as fast as by torch.
    """
    sizes = [matrices.shape[-2:] for matrices in weights]
    return all(
        max(inputs, outputs) <= 1024 and inputs * outputs <= 2**18 for inputs, outputs in sizes
    )


__all__ = ["available", "cross_entropy_sum", "gradient_taps", "swiglu_experts"]
