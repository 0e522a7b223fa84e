"""Load the compiled C libraries and call their functions.

Where the library is missing or does not fit, torch's operations compute the same up to rounding, slower.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from model.ops.native.build import library_path, processor_features, source_digest
from model.ops.native.signatures import signatures

REALS = {torch.float32: "float", torch.float64: "double"}


def available(dtype: torch.dtype) -> bool:
    """Say whether the C library for `dtype` can be used. If not, the first call prints one line with the reason."""
    return dtype in REALS and library(dtype) is not None


# Until the seam `ops` decides, kernels.py, attention.py and experts.py ask the following functions.
def takes(x: Tensor, *others: Tensor | None) -> bool:
    """Say whether x [T, ...], together with the others, is computed here: one dtype, nothing is promoted."""
    return runs(x.device, x.dtype) and all(other is None or other.dtype == x.dtype for other in others)


def runs(device: torch.device, dtype: torch.dtype) -> bool:
    """Say whether tensors of this kind are computed here."""
    if torch.compiler.is_compiling():  # before anything that a compiler cannot follow
        return False
    suits = device.type == "cpu" and torch.get_num_threads() == 1 and os.environ.get("DREAMER_NATIVE") != "0"
    return suits and not _watched() and available(dtype)


def _watched() -> bool:
    """Say whether something counts or records torch's operations, and so must see them (not checkpointing)."""
    if not torch._C._len_torch_dispatch_stack():
        return False
    modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return any(type(mode).__module__ != "torch.utils.checkpoint" for mode in modes)


def holds(*weights: Tensor) -> bool:
    """Say whether matrices [..., I, O] are multiplied at least as fast here as by torch: those that stay in a cache."""
    return all(max(each.shape[-2:]) <= 1024 and each.shape[-2] * each.shape[-1] <= 2**18 for each in weights)


@functools.cache
def library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """Load the library for `dtype` unless it is stale or needs instructions that this processor lacks."""
    path = library_path(REALS[dtype])
    reason = "was not compiled at installation (is there a C compiler?)"
    if path.exists():
        try:
            loaded = ctypes.CDLL(str(path))
            record = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(loaded, "build_record")))
            reason = _mismatch(*record.decode().split())
            if reason is None:
                return loaded
        except (OSError, ValueError) as error:
            reason = f"cannot be loaded ({error})"
    advice = "install the package again on this machine (in a checkout: pip install -e .)"
    print(f"The C engine {reason}, so training on a CPU is slower; {advice}", file=sys.stderr)
    return None


def _mismatch(digest: str, *features: str) -> str | None:
    missing = set(features) - processor_features()
    if missing:
        return f"was compiled for another processor (this one has no {min(missing)})"
    return None if digest == source_digest() else "was compiled from other sources"


@functools.cache
def _function(name: str, dtype: torch.dtype) -> Callable[..., int]:
    if not available(dtype):
        raise TypeError(f"{name}: there is no C library for {dtype}")
    function = getattr(library(dtype), name)
    function.argtypes = signatures()[name].types
    return function


def call(name: str, *arguments: Tensor | list[Tensor] | float | None) -> None:
    """Call a C function with contiguous tensors, lists of tensors, numbers, and None for tensors that are optional.

    Raises TypeError or ValueError for arguments that do not fit the function's signature, and torch.OutOfMemoryError.
    """
    real = next(each.dtype for each in arguments if isinstance(each, Tensor) and each.is_floating_point())
    function = _function(name, real)
    if function(*signatures()[name].bind(name, real, arguments)):
        raise torch.OutOfMemoryError(f"{name}: no memory for its workspace")
