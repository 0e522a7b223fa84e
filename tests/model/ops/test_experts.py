"""Routing, dispatch, balance, and the hand-written gradients of the products."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from model.config import DreamerConfig
from model.experts import Router
from model.ops import kernels, reference
from model.ops.balance import balance_step
from model.ops.context import depth_code, position_code
from model.ops.kernels import attend_depth, dispatch, mixed_product, rms_norm, route, swiglu_experts, turn

pytestmark = pytest.mark.usefixtures("engine")

TINY = DreamerConfig(hidden_size=8, routing_size=8, experts=5, active_experts=2, expert_size=8)


def double(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def new_router(experts: int = 5, active: int = 2, normalised: bool = True) -> Router:
    router = Router(TINY, experts, active, rate=0.1, normalised=normalised).double()
    for parameter in router.parameters():
        torch.nn.init.normal_(parameter)
    return router


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 9), st.data())
def test_dispatch_sorts_pairs_by_expert(tokens, experts, data):
    active = data.draw(st.integers(1, experts))
    ids = torch.stack([torch.randperm(experts)[:active] for _ in range(tokens)])
    order, token_of, places, ends, cuts = dispatch(ids, experts)
    chosen = ids.flatten()[order]
    assert chosen.tolist() == sorted(chosen.tolist())
    assert (token_of == order // active).all()
    assert (chosen[places] == ids).all()
    assert ends.tolist() == torch.bincount(ids.flatten(), minlength=experts).cumsum(0).tolist()
    for start, end in zip([0, *ends.tolist()], ends.tolist(), strict=False):
        assert token_of[start:end].tolist() == sorted(token_of[start:end].tolist())
    assert cuts is None


@pytest.mark.parametrize(("active", "normalised"), [(1, False), (2, True), (5, True)])
def test_routing_is_equation_2(active, normalised):
    router = new_router(active=active, normalised=normalised)
    router.bias += torch.randn(5, dtype=torch.float64)
    x, code = double(12, 8), depth_code(6, 8, 500.0, torch.device("cpu"), torch.float64)
    for depth, prepared in enumerate(router.prepare(code)):
        ids, weights = router(x, *prepared)
        angles = reference.angles_of(code[depth])
        scores, expected = reference.route(router, x, angles)
        assert (ids.sort().values == expected.sort().values).all()
        torch.testing.assert_close(weights, scores.gather(-1, ids))
    if normalised:
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(12, dtype=torch.float64))


def test_bias_selects_but_does_not_weigh():
    router = new_router(active=1, normalised=False)
    x = double(20, 8)
    ids, weights = router(x, *router.prepare(None)[0])
    router.bias[3] = 100.0
    moved, moved_weights = router(x, *router.prepare(None)[0])
    assert (moved == 3).all()
    unmoved = (ids == 3).squeeze()
    assert unmoved.any()
    torch.testing.assert_close(weights[unmoved], moved_weights[unmoved])
    assert (moved_weights < 1).all()


def test_a_constant_added_to_all_biases_changes_nothing():
    router = new_router()
    x = double(20, 8)
    router.bias += torch.randn(5, dtype=torch.float64)
    before = router(x, *router.prepare(None)[0])
    router.bias += 7.0
    after = router(x, *router.prepare(None)[0])
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


def test_routing_stays_in_float32():
    router = Router(TINY, 5, 2, rate=0.1, normalised=True)
    for parameter in router.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(20, 8, dtype=torch.bfloat16)
    ids, weights = router(x, *router.prepare(None)[0])
    assert weights.dtype == torch.float32
    wide_ids, wide_weights = router(x.float(), *router.prepare(None)[0])
    assert (ids == wide_ids).all()
    assert (weights == wide_weights).all()


@pytest.mark.parametrize("experts", [4, 5, 32, 517])
def test_balance_moves_towards_the_median_and_its_signs_cancel(experts):
    counts = torch.randperm(10 * experts)[:experts]
    step = balance_step(counts)
    assert step.sum() == 0
    median = counts.double().quantile(0.5)
    assert (step == torch.sign(median - counts)).all()


def test_balanced_counts_move_nothing():
    assert (balance_step(torch.full((6,), 11)) == 0).all()


def test_update_applies_equation_3_and_starts_counting_anew():
    router = new_router(experts=4)
    router.count([torch.tensor([[0, 1], [0, 1], [0, 2]])], None)
    router.count([torch.tensor([[0, 3], [1, 3]])], torch.tensor([True, False]))
    assert router.counts.tolist() == [4, 2, 1, 1]
    router.update_balance()
    assert router.bias.tolist() == pytest.approx([-0.1, -0.1, 0.1, 0.1])  # median 1.5
    assert router.counts.tolist() == [0, 0, 0, 0]


def test_balancing_levels_a_skewed_router():
    """Tokens that all favour the same experts are spread over all of them within some hundred updates."""
    router = Router(TINY, 5, 2, rate=0.01, normalised=True)
    for parameter in router.parameters():
        torch.nn.init.normal_(parameter)
    shift = torch.randn(8)
    shares = []
    for step in range(400):
        ids, _ = router(0.5 * torch.randn(256, 8) + shift, *router.prepare(None)[0])
        router.count([ids], None)
        if step in (0, 399):
            shares.append(router.counts.max() / router.counts.sum())
        router.update_balance()
    assert shares[0] > 0.35
    assert shares[1] < 0.27
    assert abs(router.bias.mean()) < 0.05  # equal counts at the median leave a tick or two


def test_norm_after_turning_has_the_right_gradient():
    code = position_code(torch.arange(4), 6, 10.0, torch.float64).unsqueeze(1)
    assert gradcheck(lambda x, gain: rms_norm(x, gain, 1e-6, code), (double(4, 3, 6), double(3, 6)))
    assert gradcheck(lambda x, gain: rms_norm(x, gain, 1e-6), (double(4, 6), double(6)))
    x, gain = double(4, 3, 6), double(6)
    expected = reference.reference_norm(reference.rope(x, reference.angles_of(code)), gain, 1e-6)
    torch.testing.assert_close(rms_norm(x, gain, 1e-6, code), expected)


def test_turning_back_undoes_turning_and_keeps_lengths():
    x, code = double(5, 8), position_code(torch.arange(5), 8, 100.0, torch.float64)
    turned = turn(x, code)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(turn(turned, code, back=True), x)
    narrow = turn(x.bfloat16(), code)
    torch.testing.assert_close(narrow.double(), turned, atol=0.05, rtol=0.05)


def test_position_code_sees_distances_only():
    query, key = double(8), double(8)
    scores = [
        turn(query, code[5 + shift]) @ turn(key, code[shift])
        for code in [position_code(torch.arange(5000), 8, 10000.0, torch.float64)]
        for shift in (0, 10, 4990)
    ]
    assert scores[0].item() == pytest.approx(scores[1].item())
    assert scores[0].item() == pytest.approx(scores[2].item())


def test_half_of_the_depth_code_runs_backwards():
    code = depth_code(4, 16, 500.0, torch.device("cpu"), torch.float64)
    forward, backward = reference.angles_of(code).chunk(2, dim=-1)
    frequencies = torch.tensor([500 ** (-i / 4) for i in range(4)], dtype=torch.float64)
    for l in range(1, 5):  # noqa: E741  the paper's letter
        torch.testing.assert_close(forward[l - 1], torch.atan2((l * frequencies).sin(), (l * frequencies).cos()))
        rest = (4 - l) * frequencies
        torch.testing.assert_close(backward[l - 1], torch.atan2(rest.sin(), rest.cos()))


@pytest.mark.parametrize("active", [1, 3])
def test_router_gradient(active):
    router = new_router(active=active, normalised=active > 1)

    def weights(x, query, keys):
        return route(x, query, keys, router.bias, active, active > 1, 1e-6)[1]

    assert gradcheck(weights, (double(6, 8), double(8, 4), double(5, 4)))


def test_expert_gradients_with_an_expert_nobody_chose():
    ids = torch.tensor([[0, 2], [2, 3], [0, 3], [3, 2]])
    to = dispatch(ids, 5)
    inputs = double(4, 4), double(4, 2), double(5, 4, 6), double(5, 3, 4)
    assert gradcheck(lambda *tensors: swiglu_experts(*tensors, to), inputs)


def test_mixture_is_equation_7_with_its_gradients():
    ids = torch.tensor([[0], [2], [0], [2], [1]])
    to = dispatch(ids, 4)
    x, scores, weights, shared = double(5, 3), double(5, 1), double(4, 3, 6), double(3, 6)

    def plain(x, scores, weights, shared):
        onehot = torch.zeros(5, 4, dtype=torch.float64).scatter(1, ids, 1.0) * scores
        return reference.mixture(x, onehot, weights, shared)

    def fast(x, scores, weights, shared):
        return mixed_product(x, scores, weights + shared, shared.detach(), to)

    # The reference takes the largest score as that of the shared expert: true of scores above zero, as sigmoids are.
    scores = scores.detach().abs().requires_grad_()
    inputs = x, scores, weights, shared
    torch.testing.assert_close(fast(*inputs), plain(*inputs))
    direction = torch.randn(5, 6, dtype=torch.float64)
    expected = torch.autograd.grad(plain(*inputs), inputs, direction)
    for one, other in zip(torch.autograd.grad(fast(*inputs), inputs, direction), expected, strict=True):
        torch.testing.assert_close(one, other)
    alone = torch.autograd.grad(mixed_product(x, scores, weights, None, to), (x, scores, weights), direction)
    expected = torch.autograd.grad(plain(x, scores, weights, None), (x, scores, weights), direction)
    for one, other in zip(alone, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("heads", "key_value_heads"), [(1, 1), (4, 2)])
def test_depth_attention_is_attention(heads, key_value_heads):
    query = double(2, heads, 4)
    entries = [double(2, key_value_heads, 4) for _ in range(6)]
    assert gradcheck(lambda query, *e: attend_depth(query, list(e[:3]), list(e[3:]))[0], (query, *entries))
    attended, scores = attend_depth(query, entries[:3], entries[3:])
    share = heads // key_value_heads
    key, value = (torch.stack(e, dim=2).repeat_interleave(share, dim=1) for e in (entries[:3], entries[3:]))
    expected = reference.attention(query.unsqueeze(2), key, value, torch.ones(3, dtype=torch.bool))
    torch.testing.assert_close(attended, expected[0].squeeze(2))
    torch.testing.assert_close(scores, expected[1].squeeze(2))
    assert not scores.requires_grad


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("size", [8, 12, 6])
def test_every_grouped_path_gives_the_same(dtype, tolerance, size):
    """Sizes of whole 16 bytes go to torch's grouped product, others through a loop over the experts."""
    ids = torch.stack([torch.randperm(7)[:2] for _ in range(40)])
    to = dispatch(ids, 7)
    shapes = (40, size), (40, 2), (7, size, 16), (7, 8, size)
    inputs = [torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    output, expected = swiglu_experts(*inputs, to), swiglu_experts(*wide, to)
    direction = torch.randn_like(expected)
    for one, other in zip(
        (output, *torch.autograd.grad(output, inputs, direction.to(dtype))),
        (expected, *torch.autograd.grad(expected, wide, direction)),
        strict=True,
    ):
        assert (one.double() - other).abs().max() < tolerance * other.abs().max()


@pytest.mark.parametrize("groups", [8, 4, 3])
@pytest.mark.parametrize("chosen", [range(9), range(4), range(4, 9)])
def test_more_experts_than_a_product_takes_go_in_parts(chosen, groups, monkeypatch):
    """Also where a part has nothing to do."""
    ids = torch.stack([torch.tensor(chosen)[torch.randperm(len(chosen))[:2]] for _ in range(40)])
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((40, 8), (40, 2), (9, 8, 16), (9, 8, 8))]
    whole = swiglu_experts(*inputs, dispatch(ids, 9))
    monkeypatch.setattr(kernels, "GROUPS", groups)
    parts = swiglu_experts(*inputs, dispatch(ids, 9))
    torch.testing.assert_close(parts, whole)
    direction = torch.randn_like(whole)
    expected = torch.autograd.grad(whole, inputs, direction)
    torch.testing.assert_close(torch.autograd.grad(parts, inputs, direction), expected)


def test_router_state_travels_with_the_model():
    router = new_router()
    router.bias += 1.5
    router.counts += 3
    other = new_router()
    other.load_state_dict(router.state_dict())
    assert (other.bias == 1.5).all()
    assert (other.counts == 3).all()


def test_a_rate_of_zero_leaves_the_bias_alone():
    router = Router(dataclasses.replace(TINY, expert_bias_rate=0.0), 4, 1, rate=0.0, normalised=False)
    router.count([torch.tensor([[0], [0]])], None)
    router.update_balance()
    assert (router.bias == 0).all()
    assert (router.counts == 0).all()
