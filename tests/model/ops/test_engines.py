"""How the seam chooses an engine, and that all engines have the same operations."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from model import ops
from model.ops import ENGINES, torch_kernels
from tests.model.compiler import needs_compiler

NAMES = torch_kernels.__all__


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_engines_have_the_operations_of_the_seam(engine):
    for name in NAMES:
        expected = list(inspect.signature(getattr(ops, name)).parameters)
        assert list(inspect.signature(getattr(engine, name)).parameters)[: len(expected)] == expected


@needs_compiler
def test_native_is_for_plain_tensors_of_one_dtype_on_one_thread(one_thread, monkeypatch):
    x = torch.zeros(3)
    assert ops.engine_of(x, None, torch.nn.Parameter(x)) == "native"
    for others in ([x.double()], [x.bfloat16()], [x.to("meta")]):
        assert ops.engine_of(x, *others) == "torch"
    assert ops.engine_of(x.bfloat16()) == "torch"
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
    assert ops.engine_of(fake) == "torch"
    torch.set_num_threads(2)
    assert ops.engine_of(x) == "torch"
    torch.set_num_threads(1)
    monkeypatch.setenv("DREAMER_NATIVE", "0")
    assert ops.engine_of(x) == "torch"


@needs_compiler
def test_an_engine_may_be_forced(one_thread):
    x = torch.zeros(3)
    for name in ENGINES:
        with ops.engine(name):
            assert ops.engine_of(x) == name
            with ops.engine("torch"):
                assert ops.engine_of(x) == "torch"
            assert ops.engine_of(x) == name
    assert ops.engine_of(x) == "native"


def test_an_unknown_engine_is_refused():
    with (
        pytest.raises(ValueError, match="engine is 'natve', but it must be one of reference, torch, native"),
        ops.engine("natve"),
    ):
        pass


def test_blocks_of_two_threads_may_overlap():
    first, second = ops.engine("torch"), ops.engine("reference")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert not ops._forced
