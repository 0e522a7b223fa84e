"""Choose the device and the precision of a run's matrix products, and tell a device's peak."""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress

import torch

from dreamer_study.pipeline.errors import InputError

# Dense bfloat16 FLOP/s by a part of the name CUDA reports, the more special name first (the makers'
# data sheets).
PEAKS = (
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("GH200", 989e12),
    ("H200 NVL", 835e12),
    ("H200", 989e12),
    ("GB200", 2500e12),
    ("B200", 2250e12),
    ("A100", 312e12),
    ("L40S", 362e12),
)


def choose_device(wanted: str, local: int = 0) -> torch.device:
    """Choose the device for 'auto', 'cpu', 'cuda' or 'cuda:<number>'.

    Of several CUDA devices the one numbered `local`, where no number is given. A CUDA device always
    has its number: `torch.cuda.set_device` takes no other. Raises InputError if there is no such
    device here.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", wanted):
        raise InputError(f"device is {wanted!r}, but it must be auto, cpu, cuda or cuda:<number>")
    count = torch.cuda.device_count()
    if wanted == "cpu" or (wanted == "auto" and not count):
        return torch.device("cpu")
    if not count:
        raise InputError(
            f"device is {wanted!r}, but torch finds no CUDA device here; give 'cpu' or 'auto'"
        )
    _, _, number = wanted.partition(":")
    if number and int(number) >= count:
        raise InputError(
            f"device is {wanted!r}, but torch finds only {count} CUDA devices here, numbered from 0"
        )
    if not number and local >= count:
        raise InputError(f"LOCAL_RANK is {local}, but torch finds only {count} CUDA devices here")
    return torch.device("cuda", int(number) if number else local)


def choose_precision(wanted: str, device: torch.device) -> torch.dtype:
    """Choose the dtype of matrix products for 'auto', 'bfloat16' or 'float32'.

    Weights stay in float32.
    """
    if wanted == "auto":
        wanted = "bfloat16" if device.type == "cuda" else "float32"
    return getattr(torch, wanted)


def use_one_core() -> None:
    """Set this process to compute on one core of the CPU.

    Several small processes side by side are many times faster than their threads, which wait for
    each other more than they work. And glibc is told to keep what is freed for the next step
    instead of giving it back to the system: a few per cent of a step (docs/log.md).
    """
    torch.set_num_threads(1)
    with suppress(OSError, AttributeError, TypeError):  # another C library
        mmap_threshold = -3  # M_MMAP_THRESHOLD of malloc.h
        trim_threshold = -1  # M_TRIM_THRESHOLD
        library = ctypes.CDLL(None)
        library.mallopt(mmap_threshold, 2**25)
        library.mallopt(trim_threshold, 2**28)


def device_name(device: torch.device) -> str:
    """Name the device in results: 'cpu', or what CUDA calls the device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def peak_flops(name: str, precision: torch.dtype) -> float | None:
    """Return the peak of dense FLOP/s of a device in a precision; None where it is not known."""
    if precision != torch.bfloat16:
        return None
    return next((peak for part, peak in PEAKS if re.search(rf"\b{part}\b", name)), None)
