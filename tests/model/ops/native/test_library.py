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


@pytest.fixture
def loads():
    """Load libraries anew in the test and after it."""
    library.library.cache_clear()
    yield
    library.library.cache_clear()


@needs_compiler
def test_the_library_is_there_where_a_compiler_is():
    assert library.available(torch.float32)
    assert library.available(torch.float64)
    assert not library.available(torch.bfloat16)


def refusal(capsys):
    """The one line about a library that cannot be used."""
    assert not library.available(torch.float32)
    assert not library.available(torch.float32)
    (line,) = capsys.readouterr().err.splitlines()
    assert "training on a CPU is slower; install the package again" in line
    return line


def test_a_missing_library_is_reported_once(loads, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(library, "library_path", lambda real: tmp_path / f"{real}.so")
    assert "was not compiled at installation" in refusal(capsys)


def test_a_damaged_library_is_not_used(loads, monkeypatch, tmp_path, capsys):
    (tmp_path / "float.so").write_bytes(b"")
    monkeypatch.setattr(library, "library_path", lambda real: tmp_path / f"{real}.so")
    assert "cannot be loaded" in refusal(capsys)


@needs_compiler
def test_a_library_of_other_sources_is_not_used(loads, monkeypatch, capsys):
    monkeypatch.setattr(library, "source_digest", lambda: "another")
    assert "was compiled from other sources" in refusal(capsys)


@needs_compiler
@pytest.mark.skipif(not build.processor_features(), reason="only Linux lists the processor's instruction sets")
def test_a_library_for_another_processor_is_not_used(loads, monkeypatch, capsys):
    monkeypatch.setattr(library, "processor_features", set)
    assert re.search(r"was compiled for another processor \(this one has no \w+\)", refusal(capsys))


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
