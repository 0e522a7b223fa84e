"""The chunked cross entropy against torch's."""

import pytest
import torch
import torch.nn.functional as F

from model.ops import cross_entropy_sum


@pytest.mark.parametrize("chunk_rows", [1, 3, 7, 100])
@pytest.mark.parametrize("count", [0, 1, 20])
def test_loss_and_gradients_equal_the_plain_ones(chunk_rows, count):
    torch.manual_seed(0)
    hidden = torch.randn(count, 6, dtype=torch.float64, requires_grad=True)
    head = torch.randn(11, 6, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (count,))
    wanted = F.cross_entropy(hidden @ head.T, targets, reduction="sum") * 0.3
    found = cross_entropy_sum(hidden, head, targets, chunk_elements=chunk_rows * 11) * 0.3
    torch.testing.assert_close(found, wanted)
    for gradient, plain in zip(
        torch.autograd.grad(found, (hidden, head)), torch.autograd.grad(wanted, (hidden, head)), strict=True
    ):
        torch.testing.assert_close(gradient, plain)


def test_narrow_inputs_are_summed_wide():
    torch.manual_seed(0)
    hidden = torch.randn(300, 16, dtype=torch.bfloat16, requires_grad=True)
    head = torch.randn(50, 16, dtype=torch.bfloat16, requires_grad=True)
    targets = torch.randint(50, (300,))
    loss = cross_entropy_sum(hidden, head, targets, chunk_elements=10 * 50)
    assert loss.dtype == torch.float32
    loss.backward()
    wide_hidden, wide_head = (x.detach().float().requires_grad_() for x in (hidden, head))
    wanted = F.cross_entropy(wide_hidden @ wide_head.T, targets, reduction="sum")
    wanted.backward()
    torch.testing.assert_close(loss, wanted, rtol=5e-3, atol=0)
    assert head.grad.dtype == torch.bfloat16
    torch.testing.assert_close(head.grad.float(), wide_head.grad, rtol=0.02, atol=0.05)


def test_extreme_logits_stay_finite():
    hidden = torch.tensor([[1000.0], [-1000.0]], requires_grad=True)
    head = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    loss = cross_entropy_sum(hidden, head, torch.tensor([1, 1]))
    loss.backward()
    assert loss.item() == 2000
    assert torch.isfinite(hidden.grad).all()
