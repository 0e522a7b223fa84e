"""How the seam chooses an engine, and that all engines have the same operations."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from model import ops
from model.ops import ENGINES, reference, torch_kernels
from tests.model.compiler import needs_compiler

NAMES = torch_kernels.__all__


def chosen(*tensors: torch.Tensor) -> str:
    """The name of the engine for these tensors."""
    engine = ops._engine(*tensors)
    return next(name for name, module in ENGINES.items() if module is engine)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_engines_have_the_operations_of_the_seam(engine):
    for name in NAMES:
        expected = list(inspect.signature(getattr(ops, name)).parameters)
        assert list(inspect.signature(getattr(engine, name)).parameters)[: len(expected)] == expected


def test_the_reference_lists_them_in_the_order_of_the_seam():
    def in_order(module):
        return sorted(NAMES, key=lambda name: inspect.getsourcelines(getattr(module, name))[1])

    assert in_order(reference) == in_order(ops)


@needs_compiler
def test_native_is_for_plain_tensors_of_one_dtype_on_one_thread(one_thread, monkeypatch):
    x = torch.zeros(3)
    assert chosen(x, None, torch.nn.Parameter(x)) == "native"
    for others in ([x.double()], [x.bfloat16()], [x.to("meta")]):
        assert chosen(x, *others) == "torch"
    assert chosen(x.bfloat16()) == "torch"
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
    assert chosen(fake) == "torch"
    torch.set_num_threads(2)
    assert chosen(x) == "torch"
    torch.set_num_threads(1)
    monkeypatch.setenv("DREAMER_NATIVE", "0")
    assert chosen(x) == "torch"


@needs_compiler
def test_an_engine_may_be_forced(one_thread):
    x = torch.zeros(3)
    for name in ENGINES:
        with ops.engine(name):
            assert chosen(x) == name
            with ops.engine("torch"):
                assert chosen(x) == "torch"
            assert chosen(x) == name
    assert chosen(x) == "native"
    with pytest.raises(AssertionError, match="must be one of reference, torch, native"), ops.engine("numpy"):
        pass
