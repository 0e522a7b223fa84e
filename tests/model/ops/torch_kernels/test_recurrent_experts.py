"""Gradients of experts that several depths use, on a CPU that is treated as a GPU."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model.ops import Routing, gradient_taps, swiglu_experts
from model.ops.gpu import as_on_gpu
from model.ops.torch_kernels import recurrent_experts
from model.ops.torch_kernels.routing import dispatch
from tests.model.tiny_network import DR, build, by_reference, double, random_tokens

T, A, E, H, SIZE, USES = 30, 2, 6, 8, 8, 5


def network(x: Tensor, inward: Tensor, outward: Tensor, *, uses: int = USES) -> Tensor:
    """Several uses of one set of experts, one behind the other: [T, H]. Nobody chooses expert 2."""
    draw = torch.Generator().manual_seed(3)
    for taps in gradient_taps(inward, outward, uses, len(x), A):
        ids = torch.stack([torch.tensor([0, 1, 3, 4, 5])[torch.randperm(5, generator=draw)[:A]] for _ in x])
        scores = torch.rand(len(x), A, generator=draw, dtype=torch.float64).to(x.dtype)
        routing = Routing(ids, scores, dispatch(ids, len(inward)))
        x = x + swiglu_experts(x, routing, inward, outward, taps)
    return x


def weights() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return double(T, H), double(E, H, 2 * SIZE), double(E, SIZE, H)


def gradients(inputs: tuple[Tensor, ...], direction: Tensor, **options) -> tuple[Tensor, ...]:
    return torch.autograd.grad(network(*inputs, **options), inputs, direction.to(inputs[0].dtype))


@pytest.mark.parametrize("together", [1, 2, USES])
def test_gradients_are_those_of_the_reference(together, as_gpu, monkeypatch):
    monkeypatch.setattr(recurrent_experts, "ELEMENTS", together * T * A * 2 * SIZE)
    inputs = weights()
    direction = torch.randn(T, H, dtype=torch.float64)
    expected = by_reference(gradients, inputs, direction)
    torch.testing.assert_close(gradients(inputs, direction), expected)


def test_the_weights_of_all_uses_take_one_product_each(as_gpu, monkeypatch):
    made = []
    grouped_mm = F.grouped_mm

    def counted(left: Tensor, right: Tensor, *, offs: Tensor) -> Tensor:
        product = grouped_mm(left, right, offs=offs)
        made.append(product.shape)
        return product

    monkeypatch.setattr(F, "grouped_mm", counted)
    gradients(tuple(each.detach().float().requires_grad_() for each in weights()), torch.ones(T, H))
    assert sorted(shape for shape in made if len(shape) == 3) == [(E, SIZE, H), (E, H, 2 * SIZE)]


def test_the_rows_of_a_group_are_multiplied_before_those_of_earlier_depths_are_made(as_gpu, monkeypatch):
    tokens = random_tokens()
    config = dataclasses.replace(DR, depth=4)
    rows = tokens.numel() * config.active_experts
    monkeypatch.setattr(recurrent_experts, "ELEMENTS", 2 * rows * max(config.hidden_size, 2 * config.expert_size))
    order, grouped_outer = [], recurrent_experts.grouped_outer

    def multiply(*factors) -> Tensor:
        order.append("weights")
        return grouped_outer(*factors)

    def observe(depth: int, name: str, attended) -> None:
        if name == "experts":
            attended.output.register_hook(lambda _: order.append(depth))

    monkeypatch.setattr(recurrent_experts, "grouped_outer", multiply)
    build(config)(tokens, observer=observe).sum().backward()
    assert order == [3, 2, "weights", "weights", 1, 0, "weights", "weights"]


def test_uses_that_take_no_part_are_left_out(as_gpu):
    x, inward, outward = weights()
    ids = torch.randint(E, (T, A))
    routing = Routing(ids, torch.rand(T, A, dtype=torch.float64), dispatch(ids, E))
    first, second = gradient_taps(inward, outward, 2, T, A)
    swiglu_experts(x, routing, inward, outward, first)
    loss = swiglu_experts(x, routing, inward, outward, second).square().sum()
    plain = swiglu_experts(x, routing, inward, outward).square().sum()
    expected = torch.autograd.grad(plain, (x, inward, outward))
    for _ in range(2):  # a graph that is kept can be passed again
        found = torch.autograd.grad(loss, (x, inward, outward), retain_graph=True)
        torch.testing.assert_close(found, expected)


def test_there_are_taps_only_where_gradients_of_several_uses_are_wanted_on_a_gpu():
    _, inward, outward = weights()
    assert list(gradient_taps(inward, outward, 2, T, A)) == [None, None]
    with as_on_gpu("cpu"):
        assert None not in gradient_taps(inward, outward, 2, T, A)
        assert list(gradient_taps(inward, outward, 1, T, A)) == [None]
        assert list(gradient_taps(inward, outward.detach(), 2, T, A)) == [None, None]
        with torch.no_grad():
            assert list(gradient_taps(inward, outward, 2, T, A)) == [None, None]


def test_there_are_no_taps_where_the_rows_of_two_uses_are_too_many():
    inward, outward = (
        torch.empty(3, *sides, device="meta", requires_grad=True) for sides in ((1024, 1008), (504, 1024))
    )
    with as_on_gpu("meta"):
        assert None not in gradient_taps(inward, outward, 32, 32_768, 8)
        assert list(gradient_taps(inward, outward, 32, 65_536, 8)) == [None] * 32
