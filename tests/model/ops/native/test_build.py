"""How the C sources are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from model.ops.native import build
from tests.model.compiler import needs_compiler

ROOT = Path(__file__).parents[4]

CPUINFO = {
    "processor : 0\nflags\t\t: fpu sse4_2 hypervisor avx2 md_clear bmi1\nbugs : none\n": {"sse4_2", "avx2", "bmi1"},
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


def install(tmp_path, **environment):
    """Build the extension as an installation does, into a folder."""
    pytest.importorskip("setuptools")
    folders = ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path / "temp")]
    command = [sys.executable, "setup.py", "-q", "build_ext", *folders]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return sorted(path.name for path in (tmp_path / "lib").rglob("*.so")), done.stderr


@needs_compiler
@pytest.mark.slow
def test_an_installation_compiles_both_libraries(tmp_path):
    assert install(tmp_path)[0] == ["native_double.so", "native_float.so"]


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_an_installation_without_a_compiler_succeeds(compiler, tmp_path):
    compiled, warnings = install(tmp_path, CC=compiler)
    assert compiled == []
    assert warnings.count("training on a CPU will be slower") == 2
