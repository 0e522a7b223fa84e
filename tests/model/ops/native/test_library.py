"""How the C libraries are loaded and called."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from model.ops.native import build, library
from tests.model.compiler import needs_compiler

pytestmark = pytest.mark.usefixtures("one_thread")
ROOT = Path(__file__).parents[4]


@needs_compiler
def test_the_library_is_there_where_a_compiler_is():
    assert library.available(torch.float32)
    assert library.available(torch.float64)
    assert not library.available(torch.bfloat16)


@pytest.mark.parametrize(
    ("replaced", "by", "said"),
    [
        ("library_path", lambda _: Path("nowhere.so"), "was not compiled at installation"),
        ("library_path", lambda _: Path(__file__), "cannot be loaded"),
        pytest.param("source_digest", lambda: "another", "was compiled from other sources", marks=needs_compiler),
        pytest.param(
            "processor_features",
            set,
            r"was compiled for another processor \(this one has no \w+\)",
            marks=[needs_compiler, pytest.mark.skipif(not build.processor_features(), reason="only Linux lists them")],
        ),
    ],
)
def test_a_library_that_does_not_fit_is_not_used_and_said_once(replaced, by, said, monkeypatch, capsys):
    library.library.cache_clear()
    monkeypatch.setattr(library, replaced, by)
    assert not library.available(torch.float32)
    assert not library.available(torch.float32)
    library.library.cache_clear()
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(f"{said}.*training on a CPU is slower; install the package again", line)


OPTIMISED = """
import resource, torch
from model.ops.native.functions import NativeAttendSequence, NativeRMSNorm
assert False, "python -O leaves this out"
try:
    NativeRMSNorm.apply(torch.ones(3, 8), torch.ones(7), 1)
except ValueError as error:
    print(error)
query, starts = torch.ones(2**16, 1, 64), torch.zeros(2**16, dtype=torch.long)  # a workspace of 20 MB
NativeAttendSequence.apply(query[:9], query[:9], query[:9], starts[:9])
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**24 + 2**23,) * 2)
try:
    NativeAttendSequence.apply(query, query, query, starts)
except torch.OutOfMemoryError as error:
    print(error)
"""


@pytest.mark.slow
@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_errors_are_raised_by_optimised_python_and_without_memory():
    done = subprocess.run([sys.executable, "-O", "-c", OPTIMISED], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines() == [
        "norm_forward: gain is [7], but must be [H] with T = 3, H = 8",
        "attend_forward: no memory for its workspace",
    ], done.stderr
