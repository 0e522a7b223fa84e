"""The chunked cross entropy against torch's."""

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from model.ops import cross_entropy_sum
from tests.model.tiny_network import by_reference, double


def loss_and_gradients(hidden: Tensor, head: Tensor, targets: Tensor, **options) -> list[Tensor]:
    """A part of the loss, with the gradients of this part."""
    loss = 0.3 * cross_entropy_sum(hidden, head, targets, **options)
    return [loss.detach(), *torch.autograd.grad(loss, (hidden, head))]


def errors(found: list[Tensor], exact: list[Tensor]) -> list[float]:
    return [((one - other).norm() / other.norm()).item() for one, other in zip(found, exact, strict=True)]


@pytest.mark.parametrize("chunk_rows", [1, 3, 7, 100])
@pytest.mark.parametrize("count", [0, 1, 20])
def test_loss_and_gradients_equal_the_plain_ones(chunk_rows, count):
    torch.manual_seed(0)
    given = double(count, 6), double(11, 6), torch.randint(11, (count,))
    found = loss_and_gradients(*given, chunk_elements=chunk_rows * 11)
    torch.testing.assert_close(found, by_reference(loss_and_gradients, *given))


def test_narrow_inputs_are_summed_wide():
    torch.manual_seed(0)
    inputs = [torch.randn(shape, dtype=torch.bfloat16).requires_grad_() for shape in ((300, 16), (50, 16))]
    targets = torch.randint(50, (300,))
    found = loss_and_gradients(*inputs, targets, chunk_elements=10 * 50)
    assert [each.dtype for each in found] == [torch.float32, torch.bfloat16, torch.bfloat16]
    exact = by_reference(loss_and_gradients, *(each.detach().double().requires_grad_() for each in inputs), targets)
    assert max(errors(found, exact)) < 0.005


def test_extreme_logits_stay_finite():
    hidden = torch.tensor([[1000.0], [-1000.0]], requires_grad=True)
    head = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    loss = cross_entropy_sum(hidden, head, torch.tensor([1, 1]))
    loss.backward()
    assert loss.item() == 2000
    assert torch.isfinite(hidden.grad).all()


@pytest.fixture
def compiler(request):
    """Run what is compiled as it is written, or by Inductor, which compiles anew."""
    torch._dynamo.reset()
    counters.clear()
    with torch.compiler.set_stance(request.param):
        yield request.param


@pytest.mark.parametrize("compiler", ["force_eager", pytest.param("default", marks=pytest.mark.slow)], indirect=True)
def test_a_compiled_softmax_is_as_exact_and_compiled_once_for_chunks_of_all_sizes(compiler, as_gpu):
    torch.manual_seed(0)
    inputs = [torch.randn(shape, dtype=torch.bfloat16).requires_grad_() for shape in ((41, 16), (50, 16))]
    targets = torch.randint(50, (41,))
    exact = by_reference(loss_and_gradients, *(each.detach().double().requires_grad_() for each in inputs), targets)
    for rows in (41, 20, 7):  # the last of these chunks have 41, 1 and 6
        plain = errors(loss_and_gradients(*inputs, targets, chunk_elements=rows * 50), exact)
        found = errors(loss_and_gradients(*inputs, targets, chunk_elements=rows * 50, compiled=True), exact)
        assert max(plain) < 0.01
        assert all(one <= 1.001 * other for one, other in zip(found, plain, strict=True))
    assert counters["stats"]["unique_graphs"] == (1 if compiler == "default" else 0)


@pytest.mark.slow
def test_a_loss_may_be_a_part_of_what_is_compiled(as_gpu):
    torch.manual_seed(0)
    torch._dynamo.reset()
    inputs = [torch.randn(shape, dtype=torch.bfloat16).requires_grad_() for shape in ((9, 16), (50, 16))]
    targets = torch.randint(50, (9,))

    def both(hidden: Tensor, head: Tensor) -> Tensor:
        return cross_entropy_sum(2 * hidden, head, targets, chunk_elements=4 * 50, compiled=True)

    with torch.compiler.set_stance("force_eager"):
        expected = both(*inputs)
    found = torch.compile(both, backend="aot_eager", fullgraph=True)(*inputs)
    gradients = [torch.autograd.grad(loss, inputs) for loss in (found, expected)]
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*gradients)
