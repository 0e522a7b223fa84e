"""Gradients of weights that several products share, with and without torch's private functions."""

from __future__ import annotations

import pytest
import torch

from model.ops.native.functions import NativeMixedProduct
from model.ops.native.shared_gradient import SharedWeights
from tests.model.compiler import needs_compiler

PRIVATE = ("_current_graph_task_id", "_will_engine_execute_node")


def gradients(shared: bool) -> tuple[torch.Tensor, ...]:
    """Gradients of weights that three products multiply, and of what they multiply, from two of three passes."""
    torch.manual_seed(0)
    weights, x = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 8, 8), (20, 8)))
    scores, tokens = torch.rand(20, 1, dtype=torch.float64), torch.randperm(20)
    ends, y = torch.tensor([7, 7, 20], dtype=torch.int32), x
    multiplied = SharedWeights.apply(weights) if shared else weights
    for _ in range(3):
        y = torch.tanh(NativeMixedProduct.apply(y, scores, multiplied, None, tokens, ends))
    loss = y.square().sum()
    torch.autograd.grad(loss, x, retain_graph=True)  # does not come to the weights, and leaves nothing to the next
    first = torch.autograd.grad(loss, (weights, x), retain_graph=True)
    return *first, *torch.autograd.grad(loss, (weights, x))


@needs_compiler
@pytest.mark.parametrize("missing", [(), PRIVATE[:1], PRIVATE[1:], PRIVATE])
def test_shared_gradients_are_the_sums_of_the_products_own(missing, monkeypatch):
    expected = gradients(shared=False)
    for name in missing:
        monkeypatch.delattr(torch._C, name)
    for found, own in zip(gradients(shared=True), expected, strict=True):
        torch.testing.assert_close(found, own)
