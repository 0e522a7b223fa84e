"""Operations in torch: norms, routing, products, losses."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.utils import counters

from dreamer_study.model import ops
from dreamer_study.model.ops import Routing, cross_entropy_sum, gradient_taps, swiglu_experts
from dreamer_study.model.ops.gpu import BLACKWELL, as_on_gpu
from dreamer_study.model.ops.torch_kernels import products, recurrent_experts
from dreamer_study.model.ops.torch_kernels.routing import MOST_ROUNDS, dispatch, route
from tests.model.tiny_network import DR, build, by_reference, double, random_tokens


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(1, 9), st.data())
def test_dispatch_sorts_pairs_by_expert(tokens, experts, data):
    active = data.draw(st.integers(1, experts))
    ids = torch.stack([torch.randperm(experts)[:active] for _ in range(tokens)])
    order, token_of, places, ends = dispatch(ids, experts)
    chosen = ids.flatten()[order]
    assert chosen.tolist() == sorted(chosen.tolist())
    assert (token_of == order // active).all()
    assert (chosen[places] == ids).all()
    assert ends.tolist() == torch.bincount(ids.flatten(), minlength=experts).cumsum(0).tolist()
    for start, end in zip([0, *ends.tolist()], ends.tolist(), strict=False):
        assert token_of[start:end].tolist() == sorted(token_of[start:end].tolist())


@pytest.mark.slow
@pytest.mark.parametrize("active", [1, 2, 3, 8, MOST_ROUNDS + 1])
def test_compiled_code_chooses_the_first_of_the_best(active):
    """Experts are in pairs of equal keys and equal bias, so that every score is there twice."""
    experts = max(8, active + 1) // 2 * 2
    x, query, keys = (
        torch.randn(50, 6),
        torch.randn(6, 4),
        torch.randn(experts // 2, 4).repeat(2, 1),
    )
    given = x, (query, keys), torch.randn(experts // 2).repeat(2), active, True, 1e-6
    torch._dynamo.reset()
    found, wanted = torch.compile(route, backend="eager", fullgraph=True)(*given), route(*given)
    torch.testing.assert_close(found.scores.sort().values, wanted.scores.sort().values)
    assert all(len(set(ids)) == active for ids in found.ids.tolist())
    if active <= MOST_ROUNDS:
        scores = route(x, (query, keys), given[2], experts, False, 1e-6)
        biased = torch.logit(scores.scores).gather(1, scores.ids.argsort()) + given[2]
        best = biased.round(decimals=4).sort(descending=True, stable=True).indices[:, :active]
        assert torch.equal(found.ids, best)


def routed(ids: Tensor, scores: Tensor, experts: int) -> Routing:
    """Given selections and scores as a router returns them."""
    return Routing(ids, scores, dispatch(ids, experts))


@pytest.mark.usefixtures("engine")
def test_mixture_is_equation_7():
    ids = torch.tensor([[0], [2], [0], [2], [1]])
    x, scores, weights, shared = double(5, 3), double(5, 1), double(4, 3, 6), double(3, 6)

    def mixed():
        return ops.mixed_product(
            x, routed(ids, scores, 4), ops.mixed_weights(weights, shared, torch.float64)
        )

    torch.testing.assert_close(mixed(), by_reference(mixed))
    for token, expert in enumerate(ids.flatten()):
        torch.testing.assert_close(
            mixed()[token], scores[token] * (x[token] @ (weights[expert] + shared))
        )
    given = x, weights, shared
    expected = torch.autograd.grad(
        (scores * (x[:, None] @ (weights[ids[:, 0]] + shared)).squeeze(1)).sum(), given
    )
    torch.testing.assert_close(torch.autograd.grad(mixed().sum(), given), expected)
    (found,) = torch.autograd.grad(mixed().sum(), scores)  # of the chosen expert alone
    torch.testing.assert_close(found, (x[:, None] @ weights[ids[:, 0]]).sum(dim=-1))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("size", [8, 12, 6])
def test_every_grouped_path_gives_the_same(dtype, tolerance, size):
    """Sizes of whole 16 bytes go to torch's grouped product, others through a loop over the
    experts."""
    ids = torch.stack([torch.randperm(7)[:2] for _ in range(40)])
    shapes = (40, size), (40, 2), (7, size, 16), (7, 8, size)
    inputs = [
        torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes
    ]
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    output, expected = (
        ops.swiglu_experts(x, routed(ids, scores, 7), *weights)
        for x, scores, *weights in (inputs, wide)
    )
    direction = torch.randn_like(expected)
    for one, other in zip(
        (output, *torch.autograd.grad(output, inputs, direction.to(dtype))),
        (expected, *torch.autograd.grad(expected, wide, direction)),
        strict=True,
    ):
        assert (one.double() - other).abs().max() < tolerance * other.abs().max()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("groups", [8, 4, 3])
@pytest.mark.parametrize("chosen", [range(9), range(4), range(4, 9)])
def test_more_experts_than_a_product_takes_go_in_parts(chosen, groups, monkeypatch, as_gpu):
    """Also where a part has nothing to do."""
    ids = torch.stack([torch.tensor(chosen)[torch.randperm(len(chosen))[:2]] for _ in range(40)])
    inputs = [
        torch.randn(shape, requires_grad=True)
        for shape in ((40, 8), (40, 2), (9, 8, 16), (9, 8, 8))
    ]
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


@pytest.mark.usefixtures("engine")
def test_experts_without_tokens_get_no_gradient_on_a_device_that_writes_none(monkeypatch):
    ids = torch.tensor([[0], [3], [3]])
    inputs = [
        torch.randn(shape, requires_grad=True) for shape in ((3, 8), (3, 1), (5, 8, 16), (5, 8, 8))
    ]
    x, scores, *weights = inputs
    direction = torch.randn(3, 8)
    expected = torch.autograd.grad(
        ops.swiglu_experts(x, routed(ids, scores, 5), *weights), inputs, direction
    )
    grouped_mm = F.grouped_mm

    def leaving_out(left, right, *, offs):
        product = grouped_mm(left, right, offs=offs)
        if product.ndim == 3:
            product[[1, 2, 4]] = torch.nan
        return product

    monkeypatch.setattr(F, "grouped_mm", leaving_out)
    with as_on_gpu("cpu", BLACKWELL):
        found = torch.autograd.grad(
            ops.swiglu_experts(x, routed(ids, scores, 5), *weights), inputs, direction
        )
    torch.testing.assert_close(found, expected)


def loss_and_gradients(hidden: Tensor, head: Tensor, targets: Tensor, **options) -> list[Tensor]:
    """A part of the loss, with the gradients of this part."""
    loss = 0.3 * cross_entropy_sum(hidden, head, targets, **options)
    return [loss.detach(), *torch.autograd.grad(loss, (hidden, head))]


def errors(found: list[Tensor], exact: list[Tensor]) -> list[float]:
    return [
        ((one - other).norm() / other.norm()).item()
        for one, other in zip(found, exact, strict=True)
    ]


@pytest.mark.parametrize("chunk_rows", [1, 3, 7, 100])
@pytest.mark.parametrize("count", [0, 1, 20])
def test_loss_and_gradients_equal_the_plain_ones(chunk_rows, count):
    given = double(count, 6), double(11, 6), torch.randint(11, (count,))
    found = loss_and_gradients(*given, chunk_elements=chunk_rows * 11)
    torch.testing.assert_close(found, by_reference(loss_and_gradients, *given))


def test_narrow_inputs_are_summed_wide():
    inputs = [
        torch.randn(shape, dtype=torch.bfloat16).requires_grad_() for shape in ((300, 16), (50, 16))
    ]
    targets = torch.randint(50, (300,))
    found = loss_and_gradients(*inputs, targets, chunk_elements=10 * 50)
    assert [each.dtype for each in found] == [torch.float32, torch.bfloat16, torch.bfloat16]
    exact = by_reference(
        loss_and_gradients, *(each.detach().double().requires_grad_() for each in inputs), targets
    )
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "compiler", ["force_eager", pytest.param("default", marks=pytest.mark.slow)], indirect=True
)
def test_a_compiled_softmax_is_as_exact_and_compiled_once_for_chunks_of_all_sizes(compiler, as_gpu):
    inputs = [
        torch.randn(shape, dtype=torch.bfloat16).requires_grad_() for shape in ((41, 16), (50, 16))
    ]
    targets = torch.randint(50, (41,))
    exact = by_reference(
        loss_and_gradients, *(each.detach().double().requires_grad_() for each in inputs), targets
    )
    for rows in (41, 20, 7):  # the last of these chunks have 41, 1 and 6
        plain = errors(loss_and_gradients(*inputs, targets, chunk_elements=rows * 50), exact)
        found = errors(
            loss_and_gradients(*inputs, targets, chunk_elements=rows * 50, compiled=True), exact
        )
        assert max(plain) < 0.01
        assert all(one <= 1.001 * other for one, other in zip(found, plain, strict=True))
    assert counters["stats"]["unique_graphs"] == (1 if compiler == "default" else 0)


@pytest.mark.slow
def test_a_loss_may_be_a_part_of_what_is_compiled(as_gpu):
    torch._dynamo.reset()
    inputs = [
        torch.randn(shape, dtype=torch.bfloat16).requires_grad_() for shape in ((9, 16), (50, 16))
    ]
    targets = torch.randint(50, (9,))

    def both(hidden: Tensor, head: Tensor) -> Tensor:
        return cross_entropy_sum(2 * hidden, head, targets, chunk_elements=4 * 50, compiled=True)

    with torch.compiler.set_stance("force_eager"):
        expected = both(*inputs)
    found = torch.compile(both, backend="aot_eager", fullgraph=True)(*inputs)
    gradients = [torch.autograd.grad(loss, inputs) for loss in (found, expected)]
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*gradients)


T, A, E, H, SIZE, USES = 30, 2, 6, 8, 8, 5


def network(x: Tensor, inward: Tensor, outward: Tensor, *, uses: int = USES) -> Tensor:
    """Several uses of one set of experts, one behind the other: [T, H]. Nobody chooses expert 2."""
    draw = torch.Generator().manual_seed(3)
    for taps in gradient_taps(inward, outward, uses, len(x), A):
        ids = torch.stack(
            [torch.tensor([0, 1, 3, 4, 5])[torch.randperm(5, generator=draw)[:A]] for _ in x]
        )
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


def test_the_rows_of_a_group_are_multiplied_before_those_of_earlier_depths_are_made(
    as_gpu, monkeypatch
):
    tokens = random_tokens()
    config = dataclasses.replace(DR, depth=4)
    rows = tokens.numel() * config.active_experts
    monkeypatch.setattr(
        recurrent_experts, "ELEMENTS", 2 * rows * max(config.hidden_size, 2 * config.expert_size)
    )
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
        torch.empty(3, *sides, device="meta", requires_grad=True)
        for sides in ((1024, 1008), (504, 1024))
    )
    with as_on_gpu("meta"):
        assert None not in gradient_taps(inward, outward, 32, 32_768, 8)
        assert list(gradient_taps(inward, outward, 32, 65_536, 8)) == [None] * 32
