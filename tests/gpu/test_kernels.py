"""Operations on the device in bfloat16, against the reference in float64 of the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from model.ops import Routing, cross_entropy_sum, swiglu_experts
from model.ops.torch_kernels.routing import dispatch
from tests.model.tiny_network import by_reference

T, A, H, F, V = 96, 2, 32, 16, 64


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape).bfloat16()


def assert_near_the_reference(operation: Callable[..., Tensor], device: torch.device, *given: Tensor) -> None:
    """The result and all gradients, each within a fiftieth of the reference's norm."""
    here = [tensor.to(device).requires_grad_() for tensor in given]
    wide = [tensor.double().requires_grad_() for tensor in given]
    found, wanted = operation(*here), by_reference(operation, *wide)
    weight = torch.randn(wanted.shape, dtype=torch.float64)
    pairs = [(found, wanted)]
    gradients = (
        torch.autograd.grad((result * weight.to(result)).sum(), leaves)
        for result, leaves in ((found, here), (wanted, wide))
    )
    pairs += zip(*gradients, strict=True)
    for one, other in pairs:
        assert (one.cpu().double() - other).norm() < 0.02 * other.norm()


@pytest.mark.parametrize("experts", [12, 1100], ids=["12", "more than one grouped product takes"])
def test_experts_of_which_half_have_no_token(device: torch.device, experts: int) -> None:
    torch.manual_seed(0)
    ids = torch.rand(T, experts // 2).topk(A, dim=-1).indices * 2
    scores = torch.rand(T, A).softmax(dim=-1)

    def operation(x: Tensor, inward: Tensor, outward: Tensor) -> Tensor:
        chosen = ids.to(x.device)
        return swiglu_experts(x, Routing(chosen, scores.to(x), dispatch(chosen, experts)), inward, outward)

    assert_near_the_reference(operation, device, numbers(T, H), numbers(experts, H, 2 * F), numbers(experts, F, H))


@pytest.mark.parametrize("compiled", [False, True], ids=["as written", "compiled"])
def test_the_loss_of_a_large_head(device: torch.device, compiled: bool) -> None:
    if compiled and device.type == "cpu":
        pytest.skip("tests/model/ops/torch_kernels/test_loss.py compiles for the CPU")
    torch.manual_seed(0)
    targets = torch.randint(V, (T,))

    def operation(hidden: Tensor, head: Tensor) -> Tensor:
        return cross_entropy_sum(hidden, head, targets.to(hidden.device), 40 * V, compiled)

    assert_near_the_reference(operation, device, numbers(T, H), numbers(V, H))
