"""Rotary codes: what turns queries and keys by their position, or by their depth."""

from __future__ import annotations

import torch
from torch import Tensor


def position_code(positions: Tensor, size: int, base: float, dtype: torch.dtype) -> Tensor:
    """Compute the cosines and sines [..., size/2, 2] of RoPE at `positions` [...].

    Pair i of a head of `size` turns by the angle position * base^(-i / (size/2)). The angles are
    computed in float64: in float32 they are off by 1e-4 at position 4096.
    """
    exponents = torch.arange(size // 2, device=positions.device, dtype=torch.float64) / (size // 2)
    angles = positions[..., None] * base**-exponents  # [..., size/2]
    return torch.stack((angles.cos(), angles.sin()), dim=-1).to(dtype)


def depth_code(
    depth: int, size: int, base: float, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Compute the cosines and sines [L, size/2, 2] of RoPE for the depths l = 1..L (section 3.4).

    The first half of the pairs rotates with l. The second half, at the same frequencies, rotates
    with L - l: this half tells how many depths are still to come.
    """
    depths = torch.arange(1, depth + 1, device=device)
    passed = position_code(depths, size // 2, base, dtype)  # [L, size/4, 2]
    to_come = position_code(depth - depths, size // 2, base, dtype)
    return torch.cat((passed, to_come), dim=-2)
