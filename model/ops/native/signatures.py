"""Read the C functions' signatures from the C sources, and check every call against them.

C code declares each array with its shape:

    int norm_forward(int64 T, int64 H, double epsilon, in(x, T, H), in(gain, H), out(y, T, H),
                     out(scales, T))

Callers pass numbers and arrays in this order, and no sizes (capital letters): these are found from
the shapes. Example: x [3, 8] says T = 3 and H = 8; then a gain [7] raises ValueError,
"norm_forward: gain is [7], but must be [H] with T = 3, H = 8".
"""

from __future__ import annotations

import ctypes
import functools
import re
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dreamer_study.model.ops.native.build import SOURCE

FUNCTION = re.compile(r"^int (\w+)\((.*?)\) \{$", re.MULTILINE | re.DOTALL)
PARAMETER = re.compile(r"(int64|double) (\w+)|(?:in|out)(\w*)\((\w+), ((?:[^()]|\([^()]*\))*)\)")
KINDS = {"int64": ctypes.c_int64, "double": ctypes.c_double}
CHECKED = 1000  # checked combinations kept for each function
INTEGERS = {"_int64": torch.int64, "_int32": torch.int32}


class Array(NamedTuple):
    """An array parameter of a C function."""

    name: str
    dtype: torch.dtype | None  # None: the library's real type
    shape: tuple[str, ...]
    optional: bool
    count: str | None  # the length of a list of arrays; None: a single array


class Signature(NamedTuple):
    """A function's parameters in order: sizes, then numbers (None) and arrays."""

    sizes: list[str]
    parameters: list[Array | None]
    types: list[type]  # as ctypes takes them, sizes included
    computed: dict[str, CodeType]  # sizes such as N * K
    # the sizes of arguments that have been checked, by their shapes, types and layouts
    checked: dict[tuple, list[int]]

    def bind(self, function: str, real: torch.dtype, arguments: tuple) -> list:
        """Turn arguments into the values that ctypes passes on: sizes, numbers and pointers.

        Checks every combination of shapes, types and layouts once. Raises TypeError for a wrong
        dtype or device, ValueError for a wrong shape or memory that is not contiguous.
        """
        kinds: list[Any] = [real]
        values: list[Any] = []
        for argument in arguments:
            if isinstance(argument, Tensor):
                kinds.append(_kind(argument))
                values.append(argument.data_ptr())
            elif isinstance(argument, list):
                kinds.append(tuple(map(_kind, argument)))
                values.append(
                    (ctypes.c_void_p * len(argument))(*[tensor.data_ptr() for tensor in argument])
                )
            else:
                kinds.append(type(argument))
                values.append(argument)
        kind = tuple(kinds)
        sizes = self.checked.get(kind)
        if sizes is None:
            if len(self.checked) >= CHECKED:
                self.checked.clear()
            sizes = self.checked[kind] = self._sizes(function, real, arguments)
        return [*sizes, *values]

    def _sizes(self, function: str, real: torch.dtype, arguments: tuple) -> list[int]:
        """Check the arguments and return the sizes that their shapes say."""
        sizes: dict[str, int] = {}
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            if parameter is None or (argument is None and parameter.optional):
                continue
            if parameter.count is None:
                _check(function, parameter, real, argument, sizes)
                continue
            for tensor in argument:
                _check(function, parameter, real, tensor, sizes)
            if not argument or sizes.setdefault(parameter.count, len(argument)) != len(argument):
                wanted = sizes.get(parameter.count, "at least 1")
                raise ValueError(
                    f"{function}: {parameter.name} are {len(argument)}, but must be {wanted}"
                )
        for name, code in self.computed.items():
            # code of our own C sources, such as N * K
            expected = eval(code, {}, sizes) if name in sizes else None
            if name in sizes and sizes[name] != expected:
                raise ValueError(f"{function}: {name} is {sizes[name]}, but must be {expected}")
        if "M" in sizes and (not sizes["M"] or sizes["N"] % sizes["M"]):
            raise ValueError(
                f"{function}: {sizes['N']} query heads are no multiple of {sizes['M']} key heads"
            )
        return [sizes[name] for name in self.sizes]


def _kind(tensor: Tensor) -> tuple:
    """Return all of a tensor that a check depends on."""
    return tensor.shape, tensor.dtype, tensor.is_cpu, tensor.is_contiguous()


def _check(
    function: str, parameter: Array, real: torch.dtype, tensor: Tensor, sizes: dict[str, int]
) -> None:
    """Check one array; note the sizes that its shape is the first to say."""
    dtype = parameter.dtype or real
    names = parameter.shape
    shape = tensor.shape
    if tensor.dtype is not dtype or not tensor.is_cpu:
        given = f"{tensor.dtype} on {tensor.device}"
        raise TypeError(f"{function}: {parameter.name} is {given}, but must be {dtype} on the CPU")
    fits = len(shape) == len(names)
    if fits:
        expected = [sizes.setdefault(name, size) for name, size in zip(names, shape, strict=True)]
        fits = expected == [*shape]
    if not fits:
        known_sizes = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise ValueError(
            f"{function}: {parameter.name} is {list(shape)}, but must be [{', '.join(names)}] with"
            f" {known_sizes}"
        )
    if not tensor.is_contiguous():
        raise ValueError(
            f"{function}: {parameter.name} must be contiguous, but has strides {tensor.stride()}"
        )


@functools.cache
def signatures() -> dict[str, Signature]:
    """Parse the functions that the C sources export."""
    source = "\n".join(path.read_text() for path in sorted(SOURCE.glob("*.[ch]")))
    return {name: _signature(parameters) for name, parameters in FUNCTION.findall(source)}


def _signature(text: str) -> Signature:
    """Parse the parameters of a function."""
    signature = Signature([], [], [], {}, {})
    for number_type, number, kind, name, shape in PARAMETER.findall(text):
        signature.types.append(KINDS.get(number_type, ctypes.c_void_p))
        if number.isupper():
            signature.sizes.append(number)
        elif number:
            signature.parameters.append(None)
        else:
            optional = kind.endswith("_or_null")
            kind = kind.removesuffix("_or_null")
            dimensions = shape.split(", ")
            count = dimensions.pop(0) if kind == "_list" else None
            signature.parameters.append(
                Array(name, INTEGERS.get(kind), tuple(dimensions), optional, count)
            )
            for size in dimensions:
                if not size.isalpha():
                    signature.computed[size] = compile(size, name, "eval")
    return signature
