"""Attention along the sequence and along the depth, as functions over tensors: position codes, norms, and the two products.

Axes: B batch, S sequence, T = B*S tokens, N query heads, M key/value heads, K head size, P rotated pairs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def rotation(angles: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine of `angles`, in the dtype of the queries they will turn."""
    return angles.cos().to(dtype), angles.sin().to(dtype)


def sequence_angles(positions: Tensor, size: int, base: float) -> Tensor:
    """Angles [..., size/2] of RoPE at `positions`, in float64 so that long sequences stay exact."""
    exponents = torch.arange(size // 2, device=positions.device, dtype=torch.float64) / (size // 2)
    return positions[..., None].to(torch.float64) * base**-exponents


def depth_angles(depth: int, size: int, base: float, device: torch.device) -> Tensor:
    """Angles [L, size/2] of the depth code at depths 1..L (section 3.4).

    The first half of the pairs turns with depth l, the second half, at the same frequencies, with L - l: it tells how much is still to come.
    """
    depths = torch.arange(1, depth + 1, device=device)
    forward = sequence_angles(depths, size // 2, base)
    backward = sequence_angles(depth - depths, size // 2, base)
    return torch.cat((forward, backward), dim=-1)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """RoPE: turn the pairs (x[..., i], x[..., i + P]) by the angles given as cosine and sine [..., P]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def rms_norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """RMSNorm over the last axis: x / sqrt(mean(x^2) + epsilon) * gain, in float32 where x is narrower."""
    if x.is_cuda:
        return F.rms_norm(x, x.shape[-1:], gain.to(x.dtype), epsilon)
    return _RMSNorm.apply(x, gain, epsilon)


class _RMSNorm(torch.autograd.Function):
    """The gradient written out: on a CPU the one torch derives takes five times as long."""

    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x, gain, scale)
        return (wide * scale * gain).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, gain, scale = ctx.saved_tensors
        size = x.shape[-1]
        product = gradient * x
        along = (product @ gain.to(product.dtype)).unsqueeze(-1) * scale.pow(3) / size
        x_gradient = gradient * gain * scale - x * along
        gain_gradient = scale.to(product.dtype).reshape(1, -1) @ product.reshape(-1, size)
        return x_gradient.to(x.dtype), gain_gradient.reshape(size).to(gain.dtype), None


def document_positions(documents: Tensor) -> Tensor:
    """Positions [B, S] within each run of equal labels."""
    index = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    starts = torch.zeros_like(index)
    starts[:, 1:] = index[:, 1:] * (documents[:, 1:] != documents[:, :-1])
    return index - starts.cummax(dim=1).values


def document_mask(documents: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive mask [B, 1, S, S]: a position sees those up to itself that carry the same label."""
    length = documents.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=documents.device).tril()
    return additive_mask((documents[:, :, None] == documents[:, None, :]) & causal, dtype)


def additive_mask(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Mask [B, 1, Q, S] to add to attention scores, from the booleans [B, Q, S] of what a query may see."""
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return mask.masked_fill_(~visible, float("-inf")).unsqueeze(1)


def attend_sequence(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Eq. 1 over the sequence: query [B, N, Q, K], key and value [B, M, S, K] -> [B, N, Q, K]; causal without a mask."""
    grouped = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None, enable_gqa=grouped)


def attend_depth(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Eq. 1 over the depth: query [T, N, K] of this depth, keys and values [T, M, K] of the visible depths.

    Returns the attended values [T, N, K] and the scores [T, N, depths].
    """
    T, N, K = query.shape
    M = keys[0].shape[1]
    key, value = torch.stack(keys, dim=2), torch.stack(values, dim=2)  # [T, M, depths, K]
    query = query.reshape(T, M, N // M, K)
    scores = (query @ key.transpose(-1, -2)) * K**-0.5
    scores = scores.float().softmax(dim=-1).to(query.dtype) if query.dtype != torch.float64 else scores.softmax(dim=-1)
    return (scores @ value).reshape(T, N, K), scores.detach().reshape(T, N, len(keys))
