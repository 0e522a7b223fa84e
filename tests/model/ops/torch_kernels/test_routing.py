"""The sort of tokens by expert."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.ops.torch_kernels.routing import dispatch


@settings(max_examples=40, deadline=None)
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
