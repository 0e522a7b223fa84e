"""The router (Eq. 2), its balance (Eq. 3), and the rotary codes."""

from __future__ import annotations

import pytest
import torch

from model.config import DreamerConfig
from model.dreamer import Router, balance_step, depth_code
from tests.model.tiny_network import by_reference, double

pytestmark = pytest.mark.usefixtures("engine")

TINY = DreamerConfig(hidden_size=8, routing_size=8, experts=5, active_experts=2, expert_size=8)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def new_router(experts: int = 5, active: int = 2, normalised: bool = True) -> Router:
    router = Router(TINY, experts, active, rate=0.1, normalised=normalised).double()
    for parameter in router.parameters():
        torch.nn.init.normal_(parameter)
    return router


@pytest.mark.parametrize(("active", "normalised"), [(1, False), (2, True), (5, True)])
def test_routing_is_equation_2(active, normalised):
    router = new_router(active=active, normalised=normalised)
    router.bias += torch.randn(5, dtype=torch.float64)
    x, code = double(12, 8), depth_code(6, 8, 500.0, torch.device("cpu"), torch.float64)

    def dense(keys):
        ids, scores, _ = router(x, keys)
        return torch.zeros(12, 5, dtype=torch.float64).scatter(-1, ids, scores)

    for keys, plain_keys in zip(router.prepare(code), by_reference(router.prepare, code), strict=True):
        scores = dense(keys)
        torch.testing.assert_close(scores, by_reference(dense, plain_keys))
        assert ((scores > 0).sum(dim=-1) == active).all()
    if normalised:
        torch.testing.assert_close(scores.sum(dim=-1), torch.ones(12, dtype=torch.float64))


def test_bias_selects_but_does_not_weigh():
    router = new_router(active=1, normalised=False)
    x = double(20, 8)
    ids, weights, _ = router(x, router.prepare(None)[0])
    router.bias[3] = 100.0
    moved, moved_weights, _ = router(x, router.prepare(None)[0])
    assert (moved == 3).all()
    unmoved = (ids == 3).squeeze()
    assert unmoved.any()
    torch.testing.assert_close(weights[unmoved], moved_weights[unmoved])
    assert (moved_weights < 1).all()


def test_routing_stays_in_float32():
    router = Router(TINY, 5, 2, rate=0.1, normalised=True)
    for parameter in router.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(20, 8, dtype=torch.bfloat16)
    ids, weights, _ = router(x, router.prepare(None)[0])
    assert weights.dtype == torch.float32
    wide_ids, wide_weights, _ = router(x.float(), router.prepare(None)[0])
    assert (ids == wide_ids).all()
    assert (weights == wide_weights).all()


@pytest.mark.parametrize("experts", [4, 5, 32, 517])
def test_balance_moves_towards_the_median_and_its_signs_cancel(experts):
    counts = torch.randperm(10 * experts)[:experts]
    step = balance_step(counts)
    assert step.sum() == 0
    median = counts.double().quantile(0.5)
    assert (step == torch.sign(median - counts)).all()


def test_update_applies_equation_3_and_starts_counting_anew():
    router = new_router(experts=4)
    router.count(torch.tensor([[0, 1], [0, 1], [0, 2]]), None)
    router.count(torch.tensor([[0, 3], [1, 3]]), torch.tensor([True, False]))
    assert router.counts.tolist() == [4, 2, 1, 1]
    router.update_balance()
    assert router.bias.tolist() == pytest.approx([-0.1, -0.1, 0.1, 0.1])  # median 1.5
    assert router.counts.tolist() == [0, 0, 0, 0]


def test_half_of_the_depth_code_runs_backwards():
    code = depth_code(4, 16, 500.0, torch.device("cpu"), torch.float64)
    forward, backward = torch.atan2(code[..., 1], code[..., 0]).chunk(2, dim=-1)
    frequencies = torch.tensor([500 ** (-i / 4) for i in range(4)], dtype=torch.float64)
    for l in range(1, 5):  # noqa: E741  the paper's letter
        torch.testing.assert_close(forward[l - 1], torch.atan2((l * frequencies).sin(), (l * frequencies).cos()))
        rest = (4 - l) * frequencies
        torch.testing.assert_close(backward[l - 1], torch.atan2(rest.sin(), rest.cos()))
