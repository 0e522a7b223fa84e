"""How native.c is compiled, and when it is used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from model.ops.native import library as native
from tests.model.compiler import needs_compiler

pytestmark = pytest.mark.usefixtures("one_thread")


@needs_compiler
def test_several_threads_are_left_to_torch():
    assert native.runs(torch.device("cpu"), torch.float32)
    torch.set_num_threads(2)
    assert not native.runs(torch.device("cpu"), torch.float32)
    torch.set_num_threads(1)
    assert not native.runs(torch.device("cpu"), torch.bfloat16)
    assert not native.runs(torch.device("meta"), torch.float32)


USE = """
import torch
from model.ops.native import library as native
torch.set_num_threads(1)
print(native.runs(torch.device("cpu"), torch.float32))
"""


def use(cache, **environment):
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "DREAMER_NATIVE": "", **environment}
    command = [sys.executable, "-c", USE]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@needs_compiler
def test_processes_that_compile_at_once_do_not_disturb_each_other(tmp_path):
    processes = [use(tmp_path) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in processes] == ["True"] * 3
    assert len(list((tmp_path / "dreamer").iterdir())) == 1
    made = next((tmp_path / "dreamer").iterdir())
    before = made.stat().st_mtime_ns
    assert use(tmp_path, CC="no-such-compiler").communicate()[0].strip() == "False"  # another compiler, another file
    assert use(tmp_path).communicate()[0].strip() == "True"
    assert made.stat().st_mtime_ns == before  # compiled once


@needs_compiler
def test_a_damaged_library_is_made_again(tmp_path):
    assert use(tmp_path).communicate()[0].strip() == "True"
    made = next((tmp_path / "dreamer").iterdir())
    made.write_bytes(b"")
    assert use(tmp_path).communicate() == ("True\n", "")
    assert made.stat().st_size


@pytest.mark.parametrize("compiler", ["no-such-compiler", '"cc'])
def test_without_a_compiler_torch_computes_and_it_is_said_once(tmp_path, compiler):
    said, warned = use(tmp_path, CC=compiler).communicate()
    assert said.strip() == "False"
    assert warned.count("native.c cannot be used") == 1
    assert use(tmp_path, DREAMER_NATIVE="0").communicate() == ("False\n", "")


def test_a_cache_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "dreamer").write_text("a file in the way")
    assert use(tmp_path).communicate()[0].strip() == "False"
