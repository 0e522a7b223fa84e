"""Compute the operations of the network, by the engine that suits their tensors.

The engines are reference.py, torch_kernels/ and native/. May import torch and the errors of
`pipeline/`.

Axes: T tokens, H hidden, N query heads, M key/value heads, K head size, L depth, R routing size, E
experts, A active experts, F expert size, I and O inputs and outputs of a projection, B batch, C
keys in a row of the batch, V vocabulary.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from dreamer_study.model.ops import reference, torch_kernels
from dreamer_study.model.ops.gpu import on_gpu
from dreamer_study.model.ops.native import engine as native
from dreamer_study.model.ops.types import (
    Attended,
    AttentionOperands,
    Documents,
    ExpertOperands,
    Factors,
    Routing,
    Visible,
)

ENGINES: dict[str, ModuleType] = {"reference": reference, "torch": torch_kernels, "native": native}
# by the open blocks of `engine`, of whatever thread; the newest decides
_forced: dict[object, str] = {}


@contextmanager
def engine(name: str) -> Iterator[None]:
    """Compute by the engine "reference", "torch" or "native" while the block lasts.

    That holds for the whole process. A forward pass and its backward pass belong into one block.
    "native" still leaves to torch what it does not take. What counts or records torch's operations
    (FlopCounterMode and other dispatch modes) needs "torch" or "reference".
    """
    if name not in ENGINES:
        raise ValueError(f"engine is {name!r}, but it must be one of {', '.join(ENGINES)}")
    block = object()
    _forced[block] = name
    try:
        yield
    finally:
        del _forced[block]


def engine_of(*tensors: Tensor | None) -> str:
    """Return the name of the engine that computes an operation on these tensors."""
    chosen = _engine(*tensors)
    return next(name for name, module in ENGINES.items() if module is chosen)


def _engine(*tensors: Tensor | None) -> ModuleType:
    """Choose the engine for an operation on these tensors.

    The native one takes plain tensors of one dtype on a CPU, and is meant for a single thread. What
    torch compiles must be torch's operations.
    """
    if torch.compiler.is_compiling():  # before anything that a compiler cannot follow
        return torch_kernels
    forced = next(reversed(_forced.values()), None)
    if forced in ("reference", "torch"):
        return ENGINES[forced]
    if forced is None and (torch.get_num_threads() > 1 or os.environ.get("DREAMER_NATIVE") == "0"):
        return torch_kernels
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    plain = all(
        tensor is None or (tensor.is_cpu and type(tensor) in (Tensor, nn.Parameter))
        for tensor in tensors
    )
    if not plain or on_gpu(tensors[0]) or len(dtypes) != 1:
        return torch_kernels
    return native if native.available(*dtypes) else torch_kernels


def whole_attention(operands: ExpertOperands | AttentionOperands) -> Attended | None:
    """Compute a whole attention on these operands; None where the engine does not."""
    return native.whole_attention(operands) if _engine(*_tensors(operands)) is native else None


def _tensors(operands: tuple[Any, ...]) -> Iterator[Tensor]:
    """Yield the tensors among operands and in tuples among them."""
    for operand in operands:
        if isinstance(operand, Tensor):
            yield operand
        elif isinstance(operand, tuple):
            yield from _tensors(operand)


def packs(x: Tensor, length: int) -> bool:
    """Tell whether rows like x of `length` tokens are computed faster without padding.

    Packed, they lie one behind the other.
    """
    return _engine(x) is native and length <= native.LONG


def rms_norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """Normalise x over the last axis (RMSNorm): x / sqrt(mean(x^2) + epsilon) * gain."""
    return _engine(x, gain).rms_norm(x, gain, epsilon)


def split_heads(
    projected: Tensor,
    query_gain: Tensor,
    key_gain: Tensor,
    heads: tuple[int, int],
    epsilon: float,
    code: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Split fused projections [T, (N+2M)K] into queries [T, N, K], keys and values [T, M, K].

    `heads` are N and M. RoPE: the pairs (x[..., 2i], x[..., 2i + 1]) of queries and keys are
    rotated by the angles whose cosines and sines are `code` [T or 1, 1, K/2, 2]. Then queries and
    keys are normalised with the gains [K].
    """
    chosen = _engine(projected, query_gain, key_gain, code)
    return chosen.split_heads(projected, query_gain, key_gain, heads, epsilon, code)


def routing_keys(
    query: Tensor, query_gain: Tensor, keys: Tensor, epsilon: float, code: Tensor | None
) -> list[tuple[Tensor | None, ...]]:
    """Prepare what `route` needs and no token changes, for each depth of `code` [L, R/2, 2].

    Without a code there is one entry. `query` [H, R] projects the queries, which are normalised
    with `query_gain` [R]; `keys` [E, R].
    """
    return _engine(query, query_gain, keys, code).routing_keys(
        query, query_gain, keys, epsilon, code
    )


def route(
    x: Tensor,
    keys: tuple[Tensor | None, ...],
    bias: Tensor,
    active: int,
    normalised: bool,
    epsilon: float,
) -> Routing:
    """Choose `active` experts for x [T, H] by their scores plus bias [E] (Eq. 2).

    A score is the sigmoid of the query's product with a key; `normalised` scores sum to 1 over the
    chosen experts. Computed in the dtype of `keys`, which `routing_keys` has prepared.
    """
    return _engine(*keys, bias).route(x, keys, bias, active, normalised, epsilon)


def mixed_weights(
    weights: Tensor, shared: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Prepare weights [E, I, O] and a shared expert [I, O] for `mixed_product`."""
    return _engine(weights, shared).mixed_weights(weights, shared, dtype)


def mixed_product(x: Tensor, routing: Routing, weights: tuple[Tensor, Tensor | None]) -> Tensor:
    """Multiply x [T, I] by the expert of each token, scaled by its score s: [T, O].

    s x W + stop(s) x W_shared (Eq. 7).
    """
    return _engine(x, *weights).mixed_product(x, routing, weights)


def swiglu_experts(
    x: Tensor, routing: Routing, inward: Tensor, outward: Tensor, taps: Factors | None = None
) -> Tensor:
    """Sum the chosen SwiGLU experts of x [T, H], weighted by their scores (section 3.5): [T, H].

    `inward` [E, H, 2F] holds gate and up projection side by side, `outward` [E, F, H] the down
    projection. With `taps` the weights get their gradients through these.
    """
    return _engine(x, inward, outward).swiglu_experts(x, routing, inward, outward, taps)


def expert_weights(weights: Tensor, dtype: torch.dtype) -> Tensor:
    """Prepare the weights [E, I, O] of experts for `swiglu_experts`, once for all depths."""
    return _engine(weights).expert_weights(weights, dtype)


def gradient_taps(
    inward: Tensor, outward: Tensor, uses: int, tokens: int, active: int
) -> Iterator[Factors | None]:
    """Make the taps of each of several `uses` of the experts, one for each depth.

    None where the engine has no taps. `tokens` are those of one use, each of which chooses `active`
    experts. A tap is a zero-filled tensor whose gradient is a factor of the weights' gradients: so
    the gradients of several uses are made together.
    """
    return _engine(inward, outward).gradient_taps(inward, outward, uses, tokens, active)


def attend_sequence(query: Tensor, key: Tensor, value: Tensor, visible: Visible) -> Tensor:
    """Attend along the sequence: softmax(q k^T / sqrt(K)) v over visible keys (Eq. 1).

    Query [T, N, K] of B rows, key and value [B, C, M, K] -> [T, N, K].
    """
    return _engine(query, key, value).attend_sequence(query, key, value, visible)


def attend_depth(
    query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Attend along the depth (Eq. 1), each token over its own visible depths.

    Query [T, N, K] of one depth, keys and values [T, M, K] of each visible depth. Returns the
    attended values [T, N, K] and the scores [T, N, depths] (without a gradient).
    """
    return _engine(query, *keys, *values).attend_depth(query, keys, values)


def cross_entropy_sum(
    hidden: Tensor,
    head: Tensor,
    targets: Tensor,
    chunk_elements: int | None = None,
    compiled: bool = False,
) -> Tensor:
    """Sum over T the cross entropy, in nats, of hidden[T, H] @ head[V, H].T with `targets` [T].

    At most `chunk_elements` logits are held at a time. On a GPU the softmax may be `compiled`, by
    torch.compile.
    """
    return _engine(hidden, head).cross_entropy_sum(hidden, head, targets, chunk_elements, compiled)


__all__ = [
    "Attended",
    "AttentionOperands",
    "Documents",
    "ExpertOperands",
    "Factors",
    "Routing",
    "Visible",
]
