"""Who computes an operation: devices, engines, what a GPU does."""

from __future__ import annotations

import inspect
import os

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from dreamer_study.model import ops
from dreamer_study.model.ops import ENGINES, Documents, engine_of, gpu, torch_kernels
from dreamer_study.model.ops.device import choose_device, peak_flops
from dreamer_study.model.ops.gpu import as_on_gpu, capability, on_gpu, slow_products
from dreamer_study.model.ops.torch_kernels import attention
from dreamer_study.model.train import train
from dreamer_study.pipeline.errors import InputError
from tests.model.conftest import needs_compiler
from tests.model.packed_folder import write_run
from tests.model.tiny_network import random_documents


@pytest.fixture
def claim(monkeypatch):
    """A function that lets torch claim a number of CUDA devices."""
    return lambda count: monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize(
    ("count", "wanted", "local", "chosen"),
    [
        *(
            (4, "auto", 0, "cuda:0"),
            (4, "cuda", 0, "cuda:0"),
            (4, "cuda", 3, "cuda:3"),
            (4, "cuda:2", 0, "cuda:2"),
        ),
        *((4, "cpu", 3, "cpu"), (0, "auto", 0, "cpu"), (0, "auto", 5, "cpu")),
    ],
)
def test_a_cuda_device_always_has_its_number(claim, count, wanted, local, chosen):
    """`torch.cuda.set_device` refuses `cuda` without one."""
    claim(count)
    device = choose_device(wanted, local)
    assert str(device) == chosen
    assert device.type == "cpu" or torch._utils._get_device_index(device) == device.index


@pytest.mark.parametrize(
    ("count", "wanted", "local", "message"),
    [
        (0, "cuda", 0, "device is 'cuda', but torch finds no CUDA device here"),
        (0, "cuda:1", 0, "device is 'cuda:1', but torch finds no CUDA device here"),
        (2, "cuda:2", 0, "device is 'cuda:2', but torch finds only 2 CUDA devices"),
        (2, "auto", 2, "LOCAL_RANK is 2, but torch finds only 2 CUDA devices"),
        (2, "mps", 0, "device is 'mps', but it must be auto, cpu, cuda or cuda:<number>"),
    ],
)
def test_a_device_that_is_not_there_is_bad_input(claim, count, wanted, local, message):
    claim(count)
    with pytest.raises(InputError, match=message):
        choose_device(wanted, local)


DEVICES = {  # as CUDA reports them
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA H100 NVL": 835e12,
    "NVIDIA H200": 989e12,
    "NVIDIA H200 NVL": 835e12,
    "NVIDIA GH200 480GB": 989e12,
    "NVIDIA B200": 2250e12,
    "NVIDIA GB200": 2500e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA L40S": 362e12,
}


def test_the_peak_is_that_of_the_reported_name():
    assert {name: peak_flops(name, torch.bfloat16) for name in DEVICES} == DEVICES
    assert peak_flops("NVIDIA GeForce RTX 4090", torch.bfloat16) is None
    assert peak_flops("NVIDIA RTX A1000 Laptop GPU", torch.bfloat16) is None
    assert peak_flops("NVIDIA H200", torch.float32) is None


NAMES = torch_kernels.__all__


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_engines_have_the_operations_of_the_seam(engine):
    for name in NAMES:
        expected = list(inspect.signature(getattr(ops, name)).parameters)
        assert (
            list(inspect.signature(getattr(engine, name)).parameters)[: len(expected)] == expected
        )


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
        pytest.raises(
            ValueError, match="engine is 'natve', but it must be one of reference, torch, native"
        ),
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


def test_a_device_is_treated_as_a_gpu_within_the_block_only():
    cpu = torch.device("cpu")
    assert not on_gpu(cpu)
    assert on_gpu(torch.device("cuda", 1))
    with as_on_gpu("cpu", (8, 9)):
        assert on_gpu(torch.zeros(1))
        assert capability(cpu) == (8, 9)
        assert engine_of(torch.zeros(1)) == "torch"
    assert not on_gpu(torch.zeros(1))


def test_packed_documents_take_the_ragged_kernel_unless_their_heads_do_not_fit(as_gpu):
    assert attention.takes_packed(torch.bfloat16, torch.device("cpu"), 128)
    assert not attention.takes_packed(torch.float32, torch.device("cpu"), 128)
    assert not attention.takes_packed(torch.bfloat16, torch.device("cpu"), 12)
    assert not attention.takes_packed(torch.bfloat16, torch.device("cpu"), 264)


def test_bounds_and_the_longest_document_are_known_before_the_move():
    labels = random_documents()
    moved = Documents(labels, labels).moved(lambda tensor: tensor.to("meta"))
    assert moved.bounds.is_meta
    assert moved.positions.is_meta
    assert moved.real.is_meta
    assert moved.longest == 7
    assert Documents(labels, labels).bounds.tolist() == [0, 4, 9, 11, 18, 22]


@pytest.mark.parametrize(
    ("like", "precision", "why"),
    [
        ((9, 0), torch.bfloat16, None),
        ((10, 0), torch.bfloat16, None),
        ((8, 0), torch.bfloat16, "a GPU of compute capability 8.0"),
        ((9, 0), torch.float32, "float32"),
    ],
)
def test_a_gpu_without_fast_grouped_products_is_named(like, precision, why):
    with as_on_gpu("cpu", like):
        said = slow_products(torch.device("cpu"), precision)
    assert said is None if why is None else f"grouped product for {why}:" in said


def test_memory_grows_in_segments_unless_the_user_says_otherwise(monkeypatch):
    with as_on_gpu("cpu"):
        monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
        gpu.set_up(torch.float32)
        assert os.environ["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
        monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64")
        gpu.set_up(torch.float32)
        assert os.environ["PYTORCH_ALLOC_CONF"] == "max_split_size_mb:64"


@pytest.mark.slow
def test_the_start_of_a_training_says_that_products_are_slow(tmp_path, as_gpu):
    said = []
    train(write_run(tmp_path, precision="float32", compile=False), stop_at=64, notice=said.append)
    assert [line for line in said if "no fast grouped product for float32" in line]
