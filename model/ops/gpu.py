"""Tell what is computed as on a GPU: the one place that every choice between the paths of CPU and GPU asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

HOPPER, BLACKWELL = (9, 0), (10, 0)

_treated: dict[str, tuple[int, int]] = {}  # other types of devices that are treated as GPUs, with their capability


def on_gpu(where: Tensor | torch.device) -> bool:
    """Tell whether a tensor, or what is on a device, is computed as on a GPU."""
    device = where.device if isinstance(where, Tensor) else where
    return device.type == "cuda" or device.type in _treated


def capability(device: torch.device) -> tuple[int, int]:
    """Return the compute capability of a GPU: (8, 0) is an A100's, (9, 0) an H100's, (10, 0) a B200's."""
    return _treated[device.type] if device.type in _treated else torch.cuda.get_device_capability(device)


@torch.compiler.assume_constant_result
def writes_empty_groups(device: torch.device) -> bool:
    """Tell whether a grouped product writes zeros for a group without rows: on a B200 nothing (pytorch issue 172439)."""
    return not on_gpu(device) or capability(device) < BLACKWELL


@contextmanager
def as_on_gpu(device_type: str, like: tuple[int, int] = HOPPER) -> Iterator[None]:
    """Treat devices of this type as GPUs while the block lasts: so the paths of a GPU are tested on a CPU."""
    assert device_type not in _treated
    _treated[device_type] = like
    try:
        yield
    finally:
        del _treated[device_type]
