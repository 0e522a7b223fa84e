"""Attention along the depth."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck

from model import ops
from tests.model.tiny_network import by_reference, double

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize(("heads", "key_value_heads"), [(1, 1), (4, 2)])
def test_depth_attention_is_attention(heads, key_value_heads):
    query = double(2, heads, 4)
    entries = [double(2, key_value_heads, 4) for _ in range(6)]
    assert gradcheck(lambda query, *e: ops.attend_depth(query, list(e[:3]), list(e[3:]))[0], (query, *entries))
    attended, scores = ops.attend_depth(query, entries[:3], entries[3:])
    torch.testing.assert_close((attended, scores), by_reference(ops.attend_depth, query, entries[:3], entries[3:]))
    assert not scores.requires_grad
