"""Which device a run computes on, with CUDA devices that are only claimed to be there."""

import pytest
import torch

from model.ops.device import choose_device, peak_flops
from pipeline.errors import InputError


@pytest.fixture
def claim(monkeypatch):
    """A function that lets torch claim a number of CUDA devices."""
    return lambda count: monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize(
    ("count", "wanted", "local", "chosen"),
    [
        *((4, "auto", 0, "cuda:0"), (4, "cuda", 0, "cuda:0"), (4, "cuda", 3, "cuda:3"), (4, "cuda:2", 0, "cuda:2")),
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
        (0, "cuda", 0, "device is 'cuda', but torch sees no CUDA device here"),
        (0, "cuda:1", 0, "device is 'cuda:1', but torch sees no CUDA device here"),
        (2, "cuda:2", 0, "device is 'cuda:2', but torch sees only 2 CUDA devices"),
        (2, "auto", 2, "LOCAL_RANK is 2, but torch sees only 2 CUDA devices"),
        (2, "mps", 0, "device is 'mps', but it must be auto, cpu, cuda or cuda:<number>"),
    ],
)
def test_a_device_that_is_not_there_is_bad_input(claim, count, wanted, local, message):
    claim(count)
    with pytest.raises(InputError, match=message):
        choose_device(wanted, local)


NAMES = {  # as CUDA reports them
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
    assert {name: peak_flops(name, torch.bfloat16) for name in NAMES} == NAMES
    assert peak_flops("NVIDIA GeForce RTX 4090", torch.bfloat16) is None
    assert peak_flops("NVIDIA H200", torch.float32) is None
