"""Depth-attention maps and expert selections, and the numbers drawn from them."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from model.config import DreamerConfig
from model.dreamer import Dreamer
from model.introspect import observe

DR_DA = DreamerConfig(
    depth=3,
    recurrent=True,
    depth_attention=True,
    vocabulary_size=50,
    hidden_size=16,
    query_heads=2,
    key_value_heads=2,
    head_size=8,
    depth_heads=2,
    depth_head_size=8,
    experts=7,
    active_experts=2,
    expert_size=8,
    routing_size=8,
)


def batches(count: int = 2) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 50, (count, 2, 9), generator=generator)
    documents = torch.zeros_like(tokens)
    documents[..., 4:], documents[..., 7:] = 1, -1
    return list(zip(tokens, documents, strict=True))


def test_maps_are_means_over_real_tokens():
    torch.manual_seed(0)
    model = Dreamer(DR_DA)
    seen = observe(model, batches())
    assert seen.tokens == 2 * 2 * 7
    np.testing.assert_allclose(seen.depth_attention.sum(axis=1), 1, rtol=1e-5)
    assert (np.triu(seen.depth_attention, 1) == 0).all()
    assert {name: counts.shape for name, counts in seen.selections.items()} == {
        "sequence": (3, 3),
        "depth": (3, 3),
        "experts": (3, 7),
    }
    assert (seen.selections["experts"].sum(axis=1) == 2 * seen.tokens).all()
    assert (seen.selections["depth"].sum(axis=1) == seen.tokens).all()
    halves = [observe(model, [batch]) for batch in batches()]
    assert (sum(half.selections["experts"] for half in halves) == seen.selections["experts"]).all()
    mean = sum(half.depth_attention for half in halves) / 2
    np.testing.assert_allclose(mean, seen.depth_attention, rtol=1e-5)


def test_observing_leaves_the_model_as_it_was():
    model = Dreamer(DR_DA)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    observe(model, batches())
    assert model.training
    assert all((before[name] == value).all() for name, value in model.state_dict().items())
    observe(model.eval(), batches())
    assert not model.training


def test_layered_models_have_experts_per_depth_and_no_map():
    model = Dreamer(dataclasses.replace(DR_DA, recurrent=False, depth_attention=False))
    seen = observe(model, [(batches()[0][0], None)])
    assert seen.depth_attention is None
    assert seen.tokens == 18
    assert set(seen.selections) == {"experts"}
    assert seen.selections["experts"].shape == (3, 7)
    assert seen.depth_attention_rows() == {"query_depth": [], "key_depth": [], "score": []}


def test_other_depths_and_windows():
    model = Dreamer(dataclasses.replace(DR_DA, depth_window=2))
    seen = observe(model, batches(), depth=5)
    assert seen.depth_attention.shape == (5, 5)
    assert (np.tril(seen.depth_attention, -2) == 0).all()
    np.testing.assert_allclose(seen.depth_attention.sum(axis=1), 1, rtol=1e-5)
    assert seen.selections["experts"].shape == (5, 7)


def test_rows_are_those_of_the_tables():
    seen = observe(Dreamer(DR_DA), batches())
    rows = seen.depth_attention_rows()
    assert list(zip(rows["query_depth"], rows["key_depth"], strict=True)) == [
        (1, 1),
        (2, 1),
        (2, 2),
        (3, 1),
        (3, 2),
        (3, 3),
    ]
    assert rows["score"][4] == seen.depth_attention[2, 1]
    rows = seen.expert_usage_rows()
    assert len(rows["depth"]) == 21
    assert (rows["depth"][8], rows["expert"][8], rows["selections"][8]) == (2, 1, seen.selections["experts"][1, 1])
