"""Gradients of weights that several products share, with and without torch's private functions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from model.ops.native.functions import NativeMixedProduct
from model.ops.native.shared_gradient import SharedWeights
from tests.model.compiler import needs_compiler
from tests.model.tiny_network import double

pytestmark = needs_compiler
PRIVATE = ("_current_graph_task_id", "_will_engine_execute_node")


def product(x: Tensor, weights: Tensor) -> Tensor:
    """Multiply each of 20 rows by one of three matrices; nobody chooses the second."""
    ends, tokens = torch.tensor([7, 7, 20], dtype=torch.int32), torch.arange(19, -1, -1)
    return NativeMixedProduct.apply(x, torch.linspace(0, 1, 20).double()[:, None], weights, None, tokens, ends)


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return double(20, 8), double(3, 8, 8)


def gradients(shared: bool) -> tuple[Tensor, ...]:
    """Gradients of weights that three products multiply, and of what they multiply, from two of three passes."""
    x, weights = inputs()
    multiplied, y = SharedWeights.apply(weights) if shared else weights, x
    for _ in range(3):
        y = torch.tanh(product(y, multiplied))
    loss = y.square().sum()
    torch.autograd.grad(loss, x, retain_graph=True)  # does not come to the weights, and leaves nothing to the next
    first = torch.autograd.grad(loss, (weights, x), retain_graph=True)
    return *first, *torch.autograd.grad(loss, (weights, x))


@pytest.mark.parametrize("missing", [(), PRIVATE[:1], PRIVATE[1:], PRIVATE])
def test_shared_gradients_are_the_sums_of_the_products_own(missing, monkeypatch):
    expected = gradients(shared=False)
    for name in missing:
        monkeypatch.delattr(torch._C, name)
    for found, own in zip(gradients(shared=True), expected, strict=True):
        torch.testing.assert_close(found, own)


def test_shared_weights_may_meet_torch_too():
    """What comes to them from elsewhere is added; where nothing comes they have no gradient."""
    x, weights = inputs()
    shared = SharedWeights.apply(weights)
    multiplied = product(x, shared)
    (own,) = torch.autograd.grad(multiplied.sum(), weights, retain_graph=True)
    (both,) = torch.autograd.grad(multiplied.sum() + shared.sum(), weights, retain_graph=True)
    torch.testing.assert_close(both, own + 1)
    assert torch.autograd.grad(x.sum() + 0 * shared.detach().sum(), weights, allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="none themselves"):
        torch.autograd.grad(multiplied.sum(), weights, create_graph=True)


def test_a_pass_within_a_pass_has_a_gradient_of_its_own():
    x, weights = inputs()
    shared = SharedWeights.apply(weights)
    between = torch.tanh(product(x, shared))
    loss = product(between, shared).square().sum()
    (expected,) = torch.autograd.grad(loss, weights, retain_graph=True)
    inner = []

    def within(_):
        if not inner:
            inner.append(None)
            inner[0] = torch.autograd.grad(loss, weights, retain_graph=True)[0]

    between.register_hook(within)
    (outer,) = torch.autograd.grad(loss, weights, retain_graph=True)
    assert torch.equal(outer, expected)
    assert torch.equal(inner[0], expected)
