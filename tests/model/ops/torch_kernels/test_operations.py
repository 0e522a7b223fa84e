"""Norms and rotary codes, attention along the depth, the choice of experts and the sort of tokens by expert."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.ops.torch_kernels.routing import MOST_ROUNDS, dispatch, route


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


@pytest.mark.parametrize("active", [1, 2, 3, 8, MOST_ROUNDS + 1])
def test_compiled_code_chooses_the_first_of_the_best(active):
    """Experts are in pairs of equal keys and equal bias, so that every score is there twice."""
    experts = max(8, active + 1) // 2 * 2
    x, query, keys = torch.randn(50, 6), torch.randn(6, 4), torch.randn(experts // 2, 4).repeat(2, 1)
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
