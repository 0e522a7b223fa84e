"""native.c, compiled where it runs: the hot loops of kernels.py for one CPU core.

The file is compiled once for each machine by the C compiler that is there (`cc`, or what CC says), in a few seconds,
into the user's cache folder. Without a compiler, with DREAMER_NATIVE=0, with several torch threads or on another
device, kernels.py computes the same with torch's own operations; the two differ by rounding only.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

SOURCE = Path(__file__).with_name("native.c")
# Sums may be reordered to fill vector registers; what is not a number stays that, so that training sees it.
FLAGS = (
    *("-std=gnu11", "-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math"),
    *("-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
)
REALS = {torch.float32: "float", torch.float64: "double"}
"""The type of real numbers that native.c is compiled for."""


def takes(x: Tensor, *others: Tensor | None) -> bool:
    """Whether x [T, ...], together with what others there are, is computed here: one dtype, nothing is promoted."""
    return runs(x.device, x.dtype) and all(other is None or other.dtype == x.dtype for other in others)


def runs(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether tensors of this kind are computed here."""
    if torch.compiler.is_compiling():  # before anything that a compiler cannot follow
        return False
    return (
        device.type == "cpu"
        and dtype in REALS
        and torch.get_num_threads() == 1
        and not _watched()
        and library(REALS[dtype]) is not None
    )


def _watched() -> bool:
    """Whether something counts or records torch's operations, and so must see them (checkpointing's own do not)."""
    if not torch._C._len_torch_dispatch_stack():
        return False
    modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return any(type(mode).__module__ != "torch.utils.checkpoint" for mode in modes)


def holds(*weights: Tensor) -> bool:
    """Whether matrices [..., I, O] are multiplied at least as fast here as by torch: those that stay in a cache."""
    return all(max(each.shape[-2:]) <= 1024 and each.shape[-2] * each.shape[-1] <= 2**18 for each in weights)


def call(name: str, *arguments: Tensor | float | None) -> None:
    """Call a function of native.c: dense tensors as pointers (None: no pointer), integers and floats as they are."""
    values, dtypes = [], {torch.long, torch.int32}
    for argument in arguments:
        if isinstance(argument, Tensor):
            assert argument.is_contiguous()
            dtypes.add(argument.dtype)
            argument = argument.data_ptr()
        values.append(argument)
    (dtype,) = dtypes - {torch.long, torch.int32}
    function = getattr(library(REALS[dtype]), name)
    if function.argtypes is None:  # the first call says what all are like
        kinds = {int: ctypes.c_int64, float: ctypes.c_double}
        function.argtypes = [kinds.get(type(argument), ctypes.c_void_p) for argument in arguments]
    function(*values)


def pointers(tensors: list[Tensor]) -> ctypes.Array:
    """An array of pointers to tensors."""
    return (ctypes.c_void_p * len(tensors))(*[tensor.data_ptr() for tensor in tensors])


@functools.cache
def library(real: str) -> ctypes.CDLL | None:
    """The functions compiled for `float` or `double`; None where they cannot be had."""
    if os.environ.get("DREAMER_NATIVE") == "0":
        return None
    compiler = os.environ.get("CC") or "cc"
    try:
        # The processor is part of the name: what was compiled for one need not run on another that shares the folder.
        made_from = repr((SOURCE.read_bytes(), FLAGS, compiler, _processor()))
        version = hashlib.blake2b(made_from.encode(), digest_size=8).hexdigest()
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dreamer"
        path = folder / f"native-{real}-{version}.so"
        with suppress(OSError):  # not there; or damaged, or of a container with another C library: made again
            return ctypes.CDLL(str(path))
        folder.mkdir(parents=True, exist_ok=True)
        _compile(compiler, real, path)
        return ctypes.CDLL(str(path))
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:  # no home; no words in CC
        print(f"native.c cannot be used, so training on a CPU is slower: {_reason(error)}", file=sys.stderr)
        return None


def _compile(compiler: str, real: str, path: Path) -> None:
    """Compile beside the file and rename: several processes may do it at once."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = [*shlex.split(compiler), *FLAGS, f"-DREAL={real}", str(SOURCE), "-o", str(made), "-lm"]
        # Not every compiler knows its processor; one that does still leaves half of its widest registers empty.
        for options in (["-march=native", "-mprefer-vector-width=512"], ["-march=native"], []):
            done = subprocess.run([*command, *options], capture_output=True, timeout=120)
            if done.returncode == 0:
                break
        done.check_returncode()
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.rename(path)


def _reason(error: Exception) -> str:
    """One line."""
    lines = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
    return lines[0] if lines else str(error)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() + platform.machine()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
