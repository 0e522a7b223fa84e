"""The C engine: built, loaded, and of one signature on both sides."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dreamer_study.model.ops.native import build, library
from dreamer_study.model.ops.native.functions import (
    NativeAttendDepth,
    NativeAttendSequence,
    NativeHeads,
    NativeRMSNorm,
)
from dreamer_study.model.ops.native.signatures import signatures
from tests.model.conftest import needs_compiler

ROOT = Path(__file__).parents[4]

CPUINFO = {
    "processor : 0\nflags\t\t: fpu sse4_2 hypervisor avx2 md_clear bmi1\nbugs : none\n": {
        "sse4_2",
        "avx2",
        "bmi1",
    },
    "processor : 0\n": set(),
}


@pytest.mark.parametrize("text", CPUINFO)
def test_instruction_sets_are_those_of_a_processor(text, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda path: text)
    assert build.processor_features() == CPUINFO[text]


def test_a_change_of_sources_or_flags_changes_the_digest(monkeypatch, tmp_path):
    before = build.source_digest()
    for source in build.SOURCE.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(build, "SOURCE", tmp_path)
    assert build.source_digest() == before
    (tmp_path / "norm.h").write_text("/* empty */")
    assert build.source_digest() != before


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of this user, in which a library can be looked for once more."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library.library.cache_clear()
    yield tmp_path / "dreamer-study"
    library.library.cache_clear()


@needs_compiler
@pytest.mark.slow
def test_the_first_use_compiles_for_this_user_alone(cache):
    assert library.available(torch.float32)
    (compiled,) = cache.iterdir()
    before = compiled.stat().st_mtime_ns
    library.library.cache_clear()
    assert library.available(torch.float32)
    assert compiled.stat().st_mtime_ns == before
    assert cache.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_one_line_says_so(compiler, cache, monkeypatch, capsys):
    monkeypatch.setenv("CC", compiler)
    assert not library.available(torch.float32)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("No C engine, so training on a CPU takes twice as long: ")
    assert compiler in line


def test_a_folder_that_others_write_is_not_loaded_from(cache, tmp_path, monkeypatch, capsys):
    cache.mkdir()
    cache.chmod(0o777)
    build.library_path("float").write_bytes(b"anybody's")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(build.tempfile, "tempdir", str(temporary))
    home = temporary / f"dreamer-{os.getuid()}"
    assert build.find_place("float").parent == home / "engine"
    home.chmod(0o777)
    assert not library.available(torch.float32)
    assert "other users can write to" in capsys.readouterr().err


def test_where_no_home_can_be_written_the_engine_is_in_the_temporary_folder(tmp_path, monkeypatch):
    """Else torch would compute other numbers, by rounding, where only the home differs."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(build.tempfile, "tempdir", str(tmp_path))
    place = build.find_place("float")
    assert place.parent == tmp_path / f"dreamer-{os.getuid()}" / "engine"
    assert place.parent.stat().st_mode & 0o077 == 0


def test_another_processor_has_another_library(monkeypatch):
    before = build.library_path("float")
    monkeypatch.setattr(build, "processor_features", lambda: {"other"})
    assert build.library_path("float") != before != build.library_path("double")


pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_library_that_cannot_be_loaded_is_said_once(cache, capsys):
    cache.mkdir(mode=0o700)
    build.library_path("float").write_bytes(b"no library")
    assert not library.available(torch.float32)
    assert not library.available(torch.float32)
    (line,) = capsys.readouterr().err.splitlines()
    assert build.library_path("float").name in line


OPTIMISED = """
import resource, torch
from dreamer_study.model.ops.native.functions import NativeAttendSequence, NativeRMSNorm
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
    done = subprocess.run(
        [sys.executable, "-O", "-c", OPTIMISED], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout.splitlines() == [
        "norm_forward: gain is [7], but must be [H] with T = 3, H = 8",
        "attend_forward: no memory for its workspace",
    ], done.stderr


def test_signatures_are_those_of_the_c_code():
    text = "\n".join(path.read_text() for path in build.SOURCE.iterdir())
    assert len(signatures()) == len(re.findall(r"^int \w+\(", text, re.MULTILINE)) == 19
    norm = signatures()["norm_forward"]
    assert norm.sizes == ["T", "H"]
    assert [each and each.shape for each in norm.parameters] == [
        None,
        ("T", "H"),
        ("H",),
        ("T", "H"),
        ("T",),
    ]


x = torch.ones
WRONG = [
    (
        ValueError,
        r"gain is \[7\], but must be \[H\] with T = 3, H = 8",
        lambda: NativeRMSNorm.apply(x(3, 8), x(7), 1),
    ),
    (
        TypeError,
        "gain is torch.float64 on cpu",
        lambda: NativeRMSNorm.apply(x(3, 8), x(8).double(), 1),
    ),
    (
        TypeError,
        "no C library for torch.float16",
        lambda: NativeRMSNorm.apply(x(3, 8).half(), x(8).half(), 1),
    ),
    (
        TypeError,
        "gain is torch.float32 on meta",
        lambda: NativeRMSNorm.apply(x(3, 8), x(8).to("meta"), 1),
    ),
    (ValueError, "has 2 rows, but must have 1 or 3", lambda: heads(code=x(2, 1, 2, 2))),
    (ValueError, r"\(N \+ 2 \* M\) \* K is 17, but must be 16", lambda: heads(projected=x(3, 17))),
    (ValueError, r"key is \[3, 2, 5\], but must be", lambda: attend(key=x(3, 2, 5))),
    (TypeError, "starts is torch.int32", lambda: attend(starts=torch.zeros(3, dtype=torch.int32))),
    (
        ValueError,
        "4 query heads are no multiple of 3 key heads",
        lambda: attend(key=x(3, 3, 4), value=x(3, 3, 4)),
    ),
    (
        ValueError,
        r"values is \[3, 1, 4\]",
        lambda: NativeAttendDepth.apply(x(3, 4, 4), x(3, 2, 4), x(3, 1, 4)),
    ),
    (
        ValueError,
        "values are 2, but must be 1",
        lambda: NativeAttendDepth.apply(x(3, 4, 4), *[x(3, 2, 4)] * 3),
    ),
    (ValueError, "keys are 0", lambda: NativeAttendDepth.apply(x(3, 4, 4))),
    (
        ValueError,
        "must be contiguous",
        lambda: library.call("transpose_weights", x(2, 4, 3).mT, x(2, 4, 3)),
    ),
]


def heads(projected=None, code=None):
    projected, code = (
        x(3, 16) if projected is None else projected,
        x(1, 1, 2, 2) if code is None else code,
    )
    return NativeHeads.apply(projected, x(4), x(4), code, 1e-6, 2, 1)


def attend(**changes):
    inputs = {
        "query": x(3, 4, 4),
        "key": x(3, 2, 4),
        "value": x(3, 2, 4),
        "starts": torch.zeros(3, dtype=torch.long),
    }
    return NativeAttendSequence.apply(*{**inputs, **changes}.values())


@needs_compiler
@pytest.mark.parametrize(("error", "message", "function"), WRONG)
def test_tensors_that_do_not_fit_raise_errors(error, message, function):
    heads(), attend()
    with pytest.raises(error, match=message):
        function()
