"""RMSNorm and rotary codes in torch's operations, with gradients written out for a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from dreamer_study.model.ops.gpu import on_gpu


def rms_norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """Normalise x, in float32 where x is narrower."""
    return rotated_norm(x, gain, epsilon, None)


def rotate(x: Tensor, code: Tensor, *, back: bool = False) -> Tensor:
    """Rotate pairs of x, by complex products on a CPU; `back` rotates by the negative angles."""
    pairs = x.unflatten(-1, (-1, 2))
    if not on_gpu(x) and x.dtype == code.dtype:
        rotation = torch.view_as_complex(code)
        rotated = torch.view_as_complex(pairs) * (rotation.conj() if back else rotation)
        return torch.view_as_real(rotated).flatten(-2)
    first, second = pairs.unbind(-1)
    cosine, sine = code.unbind(-1)  # in float32: narrow angles would blur positions
    if back:
        sine = -sine
    rotated = first * cosine - second * sine, second * cosine + first * sine
    return torch.stack(rotated, dim=-1).flatten(-2).to(x.dtype)


def split_heads(
    projected: Tensor,
    query_gain: Tensor,
    key_gain: Tensor,
    heads: tuple[int, int],
    epsilon: float,
    code: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Rotate and normalise queries and keys together."""
    N, M = heads
    query_key, value = projected.unflatten(-1, (N + 2 * M, -1)).split((N + M, M), dim=1)
    gains = torch.cat((query_gain.expand(N, -1), key_gain.expand(M, -1)))  # [N + M, K]
    query, key = rotated_norm(query_key, gains, epsilon, code).split((N, M), dim=1)
    return query, key, value


def rotated_norm(x: Tensor, gain: Tensor, epsilon: float, code: Tensor | None) -> Tensor:
    """Normalise x rotated by `code`, or x itself without a code."""
    dtype = x.dtype
    if dtype in (torch.float32, torch.float64) and not on_gpu(x):
        return _RotatedNorm.apply(x, gain, epsilon, code)
    # a gain near 1 in bfloat16 would not show most of its updates
    wide = torch.promote_types(x.dtype, torch.float32)
    x = (x if code is None else rotate(x, code)).to(wide)
    return (F.rms_norm(x, x.shape[-1:], eps=epsilon) * gain).to(dtype)


class _RotatedNorm(torch.autograd.Function):
    """y = z * gain with z = rotate(x) / rms(x): a rotation does not change the rms.

    Backward, with g the gradient of y and z kept:

        dgain = sum of g * z;  dz = g * gain;  dx = rotate back(dz - z * mean(dz * z)) / rms(x)
    """

    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor, epsilon: float, code: Tensor | None) -> Tensor:
        square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
        scale = square.div_(x.shape[-1]).add_(epsilon).rsqrt_()
        z = x * scale if code is None else rotate(x, code).mul_(scale)
        ctx.save_for_backward(z, gain, scale, code)
        return z * gain

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        z, gain, scale, code = ctx.saved_tensors
        gain_gradient = None
        if ctx.needs_input_grad[1]:
            gain_gradient = (gradient * z).sum_to_size(gain.shape)
        gradient = (gradient * gain).contiguous()
        along = torch.linalg.vecdot(gradient, z).unsqueeze(-1).div_(z.shape[-1])
        gradient = gradient.addcmul_(z, along, value=-1).mul_(scale)
        if code is not None:
            gradient = rotate(gradient, code, back=True)
        return gradient, gain_gradient, None, None
