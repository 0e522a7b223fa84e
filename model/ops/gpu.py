"""Tell what is computed as on a GPU.

Every choice between the paths of CPU and GPU asks here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

# compute capabilities
HOPPER = (9, 0)
BLACKWELL = (10, 0)

MOST_GRAPHS = 256
"""Graphs of one compiled function, beyond which torch stops compiling.

Torch's own limit of 8 is below a model's depths.
"""

# other types of devices that are treated as GPUs, with their capability
_treated: dict[str, tuple[int, int]] = {}


def on_gpu(where: Tensor | torch.device) -> bool:
    """Tell whether a tensor, or what is on a device, is computed as on a GPU."""
    if isinstance(where, Tensor):
        return where.is_cuda or (bool(_treated) and where.device.type in _treated)
    return where.type == "cuda" or where.type in _treated


def capability(device: torch.device) -> tuple[int, int]:
    """Return the compute capability of a GPU: of an A100 (8, 0), H100 (9, 0), B200 (10, 0)."""
    if device.type in _treated:
        return _treated[device.type]
    return torch.cuda.get_device_capability(device)


def writes_empty_groups(device: torch.device) -> bool:
    """Tell whether a grouped product writes zeros for a group without rows.

    A B200 writes nothing (pytorch #172439).
    """
    return not on_gpu(device) or capability(device) < BLACKWELL


def slow_products(device: torch.device, precision: torch.dtype) -> str | None:
    """Say in a line why the products of experts are slow on this GPU; None where they are not."""
    major, minor = capability(device)
    if precision != torch.bfloat16:
        kind = str(precision).removeprefix("torch.")
    elif major not in (HOPPER[0], BLACKWELL[0]):
        kind = f"a GPU of compute capability {major}.{minor}"
    else:
        return None
    return (
        f"torch has no fast grouped product for {kind}: it goes through the experts one by one, and"
        " the host waits"
    )


def compile_for_many_shapes(function: Callable, **options: Any) -> Callable:
    """Wrap a function or a module for `torch.compile`, with graphs for MOST_GRAPHS shapes."""
    # set here, as the argument of torch.compile is newer than torch 2.11
    torch._dynamo.config.recompile_limit = MOST_GRAPHS
    return torch.compile(function, **options)


def set_up(precision: torch.dtype) -> None:
    """Set torch up for a GPU: memory in segments that grow, routers in TF32.

    Routers compute in float32. TF32 rounds what they multiply to 11 bits, inputs in bfloat16 have
    8.
    """
    # read with the first tensor
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    if precision == torch.bfloat16:
        torch.set_float32_matmul_precision("high")


@contextmanager
def as_on_gpu(device_type: str, like: tuple[int, int] = HOPPER) -> Iterator[None]:
    """Treat devices of this type as GPUs while the block lasts.

    So the paths of a GPU are tested on a CPU.
    """
    assert device_type not in _treated
    _treated[device_type] = like
    try:
        yield
    finally:
        del _treated[device_type]
