"""The paths of a GPU on CPU tensors in bfloat16: the same network, and no wait for the device that is not needed."""

from __future__ import annotations

import os

import pytest
import torch

from model.ops import Documents, engine_of, gpu
from model.ops.gpu import HOPPER, as_on_gpu, capability, on_gpu, slow_products
from model.ops.torch_kernels import attention
from model.train import train
from tests.model.packed_folder import write_run
from tests.model.tiny_network import (
    random_documents,
)


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


@pytest.mark.parametrize(
    ("like", "installed", "active"), [(HOPPER, True, ["FA3"]), (HOPPER, False, []), ((8, 0), True, [])]
)
def test_flash_attention_3_is_taken_on_hopper_where_it_is_installed(like, installed, active, monkeypatch):
    taken = []
    monkeypatch.setattr(gpu, "find_spec", lambda name: (name == "flash_attn_interface" and installed) or None)
    monkeypatch.setattr(torch.nn.attention, "activate_flash_attention_impl", taken.append)
    with as_on_gpu("cpu", like):
        gpu.set_up(torch.device("cpu"), torch.float32)
    assert taken == active


def test_memory_grows_in_segments_unless_the_user_says_otherwise(monkeypatch):
    with as_on_gpu("cpu"):
        monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
        gpu.set_up(torch.device("cpu"), torch.float32)
        assert os.environ["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
        monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64")
        gpu.set_up(torch.device("cpu"), torch.float32)
        assert os.environ["PYTORCH_ALLOC_CONF"] == "max_split_size_mb:64"


def test_the_start_of_a_training_says_that_products_are_slow(tmp_path, as_gpu):
    said = []
    train(write_run(tmp_path, precision="float32", compile=False), stop_at=64, notice=said.append)
    assert [line for line in said if "no fast grouped product for float32" in line]
