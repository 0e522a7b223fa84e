"""The products of many experts, with their gradients, on every engine for a CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model import ops
from model.ops import Routing
from model.ops.gpu import BLACKWELL, as_on_gpu
from model.ops.torch_kernels import products
from model.ops.torch_kernels.routing import dispatch
from tests.model.tiny_network import by_reference, double

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def routed(ids: Tensor, scores: Tensor, experts: int) -> Routing:
    """Given selections and scores as a router returns them."""
    return Routing(ids, scores, dispatch(ids, experts))


def test_mixture_is_equation_7():
    ids = torch.tensor([[0], [2], [0], [2], [1]])
    x, scores, weights, shared = double(5, 3), double(5, 1), double(4, 3, 6), double(3, 6)

    def mixed():
        return ops.mixed_product(x, routed(ids, scores, 4), ops.mixed_weights(weights, shared, torch.float64))

    torch.testing.assert_close(mixed(), by_reference(mixed))
    for token, expert in enumerate(ids.flatten()):
        torch.testing.assert_close(mixed()[token], scores[token] * (x[token] @ (weights[expert] + shared)))
    given = x, weights, shared
    expected = torch.autograd.grad((scores * (x[:, None] @ (weights[ids[:, 0]] + shared)).squeeze(1)).sum(), given)
    torch.testing.assert_close(torch.autograd.grad(mixed().sum(), given), expected)
    (found,) = torch.autograd.grad(mixed().sum(), scores)  # of the chosen expert alone
    torch.testing.assert_close(found, (x[:, None] @ weights[ids[:, 0]]).sum(dim=-1))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("size", [8, 12, 6])
def test_every_grouped_path_gives_the_same(dtype, tolerance, size):
    """Sizes of whole 16 bytes go to torch's grouped product, others through a loop over the experts."""
    ids = torch.stack([torch.randperm(7)[:2] for _ in range(40)])
    shapes = (40, size), (40, 2), (7, size, 16), (7, 8, size)
    inputs = [torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    output, expected = (
        ops.swiglu_experts(x, routed(ids, scores, 7), *weights) for x, scores, *weights in (inputs, wide)
    )
    direction = torch.randn_like(expected)
    for one, other in zip(
        (output, *torch.autograd.grad(output, inputs, direction.to(dtype))),
        (expected, *torch.autograd.grad(expected, wide, direction)),
        strict=True,
    ):
        assert (one.double() - other).abs().max() < tolerance * other.abs().max()


@pytest.mark.parametrize("groups", [8, 4, 3])
@pytest.mark.parametrize("chosen", [range(9), range(4), range(4, 9)])
def test_more_experts_than_a_product_takes_go_in_parts(chosen, groups, monkeypatch, as_gpu):
    """Also where a part has nothing to do."""
    ids = torch.stack([torch.tensor(chosen)[torch.randperm(len(chosen))[:2]] for _ in range(40)])
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((40, 8), (40, 2), (9, 8, 16), (9, 8, 8))]
    x, scores, *weights = inputs
    whole = ops.swiglu_experts(x, routed(ids, scores, 9), *weights)
    largest = []
    monkeypatch.setattr(products, "GROUPS", groups)
    grouped_mm = F.grouped_mm

    def counted(left, right, *, offs):
        largest.append(len(offs))
        return grouped_mm(left, right, offs=offs)

    monkeypatch.setattr(F, "grouped_mm", counted)
    parts = ops.swiglu_experts(x, routed(ids, scores, 9), *weights)
    torch.testing.assert_close(parts, whole)
    direction = torch.randn_like(whole)
    expected = torch.autograd.grad(whole, inputs, direction)
    largest.clear()
    torch.testing.assert_close(torch.autograd.grad(parts, inputs, direction), expected)
    assert max(largest) == groups


def test_experts_without_tokens_get_no_gradient_on_a_device_that_writes_none(monkeypatch):
    ids = torch.tensor([[0], [3], [3]])
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((3, 8), (3, 1), (5, 8, 16), (5, 8, 8))]
    x, scores, *weights = inputs
    direction = torch.randn(3, 8)
    expected = torch.autograd.grad(ops.swiglu_experts(x, routed(ids, scores, 5), *weights), inputs, direction)
    grouped_mm = F.grouped_mm

    def leaving_out(left, right, *, offs):
        product = grouped_mm(left, right, offs=offs)
        if product.ndim == 3:
            product[[1, 2, 4]] = torch.nan
        return product

    monkeypatch.setattr(F, "grouped_mm", leaving_out)
    with as_on_gpu("cpu", BLACKWELL):
        found = torch.autograd.grad(ops.swiglu_experts(x, routed(ids, scores, 5), *weights), inputs, direction)
    torch.testing.assert_close(found, expected)
