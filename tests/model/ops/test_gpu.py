"""The paths of a GPU on CPU tensors in bfloat16: the same network, and no wait for the device that is not needed."""

from __future__ import annotations

import os

import pytest
import torch

from model.generate import generate
from model.ops import Documents, cross_entropy_sum, engine_of, gpu
from model.ops.gpu import HOPPER, as_on_gpu, capability, on_gpu, slow_products
from model.ops.torch_kernels import attention
from model.train import train
from model.training.config import read_run
from model.training.trainer import Trainer
from tests.model.packed_folder import write_run
from tests.model.tiny_network import (
    VARIANTS,
    assert_near,
    build,
    by_reference,
    gradients,
    random_documents,
    random_tokens,
    twin,
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


@pytest.mark.parametrize("config", VARIANTS)
def test_gradients_in_bfloat16_are_near_those_of_the_reference(config, as_gpu):
    model = build(config, torch.float32)
    narrow = twin(model, dtype=torch.bfloat16)
    exact = by_reference(gradients, model, random_tokens(), documents=random_documents())
    assert_near(gradients(narrow, random_tokens(), documents=random_documents()), exact)


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


@pytest.mark.parametrize("config", VARIANTS)
def test_generation_with_shared_heads_writes_the_same(config, as_gpu):
    model = build(config, torch.float32).eval()
    prompts = [[1, 2, 3, 4, 5], [7, 8], [9, 1, 1]]
    found = generate(model, prompts, max_new_tokens=6, end_token=0)
    assert found == by_reference(generate, model, prompts, max_new_tokens=6, end_token=0)


@pytest.mark.parametrize("chunk_rows", [3, 100])
def test_the_gradient_of_a_loss_in_one_pass(chunk_rows, as_gpu):
    torch.manual_seed(0)
    hidden, head = (torch.randn(shape, dtype=torch.bfloat16).requires_grad_() for shape in ((40, 16), (50, 16)))
    targets = torch.randint(50, (40,))
    wide = [tensor.detach().double().requires_grad_() for tensor in (hidden, head)]
    wanted = by_reference(cross_entropy_sum, *wide, targets)
    found = cross_entropy_sum(hidden, head, targets, chunk_elements=chunk_rows * 50)
    torch.testing.assert_close(found.double(), wanted, rtol=5e-3, atol=0)
    pairs = zip(torch.autograd.grad(found, (hidden, head)), torch.autograd.grad(wanted, wide), strict=True)
    for one, other in pairs:
        assert (one - other).norm() < 0.01 * other.norm()


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


def test_training_steps_as_on_a_gpu_lower_the_loss(tmp_path, as_gpu):
    run = read_run(write_run(tmp_path, precision="bfloat16", micro_batch_tokens=32, compile=False))
    trainer = Trainer(run)
    losses = [trainer.train_step()[0] for _ in range(30)]
    assert sum(losses[-5:]) < sum(losses[:5])
    assert trainer._next[0] == 30  # the next batch is made while the device is at work
