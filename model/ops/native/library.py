"""Load the compiled C libraries and call their functions.

Without a library that fits, torch's operations compute the same results up to rounding, slower.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from dreamer_study.model.ops.native.build import compile_library, find_place
from dreamer_study.model.ops.native.signatures import signatures

REALS = {torch.float32: "float", torch.float64: "double"}


def available(dtype: torch.dtype) -> bool:
    """Say whether the C library for `dtype` can be used.

    If not, the first call prints one line with the reason.
    """
    return dtype in REALS and library(dtype) is not None


@functools.cache
def library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """Load the library for `dtype`, compiled at its first use.

    Code is loaded from a folder of this user alone: nobody else can put a library there. Its name
    says the sources and the processor that it was compiled for (`library_name`), so what is loaded
    fits both.
    """
    try:
        path = find_place(REALS[dtype])
        if not path.exists():
            compile_library(REALS[dtype], path)
        return ctypes.CDLL(str(path))
    except OSError as error:
        print(f"No C engine, so training on a CPU takes twice as long: {error}", file=sys.stderr)
    return None


@functools.cache
def _function(name: str, dtype: torch.dtype) -> Callable[..., int]:
    if not available(dtype):
        raise TypeError(f"{name}: there is no C library for {dtype}")
    function = getattr(library(dtype), name)
    function.argtypes = signatures()[name].types
    return function


def call(name: str, *arguments: Tensor | list[Tensor] | float | None) -> None:
    """Call a C function with contiguous tensors, lists of tensors, and numbers.

    None stands for an optional tensor. Raises TypeError or ValueError for arguments that do not fit
    the function's signature, and torch.OutOfMemoryError.
    """
    real = next(
        argument.dtype
        for argument in arguments
        if isinstance(argument, Tensor) and argument.is_floating_point()
    )
    function = _function(name, real)
    if function(*signatures()[name].bind(name, real, arguments)):
        raise torch.OutOfMemoryError(f"{name}: no memory for its workspace")
