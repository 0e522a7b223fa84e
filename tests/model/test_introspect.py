"""Depth-attention maps and expert selections, and the rows drawn from them."""

from __future__ import annotations

import dataclasses

import numpy as np

from model.introspect import observe
from tests.model.tiny_network import DR_DA, LA, build, random_documents, random_tokens

BATCHES = [(tokens, random_documents()) for tokens in (random_tokens(), random_tokens().flip(0))]


def test_maps_are_means_over_real_tokens():
    model = build(DR_DA)
    seen = observe(model, BATCHES)
    assert seen.tokens == 2 * 20
    np.testing.assert_allclose(seen.depth_attention.sum(axis=1), 1, rtol=1e-5)
    assert (np.triu(seen.depth_attention, 1) == 0).all()
    assert seen.selections.shape == (3, 5)
    assert (seen.selections.sum(axis=1) == 2 * seen.tokens).all()
    halves = [observe(model, [batch]) for batch in BATCHES]
    assert (sum(half.selections for half in halves) == seen.selections).all()
    np.testing.assert_allclose(sum(half.depth_attention for half in halves) / 2, seen.depth_attention, rtol=1e-5)


def test_observing_leaves_the_model_as_it_was():
    model = build(DR_DA)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    observe(model, BATCHES)
    assert model.training
    assert all((before[name] == value).all() for name, value in model.state_dict().items())
    observe(model.eval(), BATCHES)
    assert not model.training


def test_layered_models_have_experts_per_depth_and_no_map():
    seen = observe(build(LA), BATCHES)
    assert seen.depth_attention is None
    assert seen.selections.shape == (3, 5)
    assert seen.depth_attention_rows() == {"query_depth": [], "key_depth": [], "score": []}


def test_a_window_over_depth():
    seen = observe(build(dataclasses.replace(DR_DA, depth=5, depth_window=2)), BATCHES)
    assert (np.tril(seen.depth_attention, -2) == 0).all()
    np.testing.assert_allclose(seen.depth_attention.sum(axis=1), 1, rtol=1e-5)


def test_rows_are_those_of_the_tables():
    seen = observe(build(DR_DA), BATCHES)
    rows = list(zip(*seen.depth_attention_rows().values(), strict=True))
    assert [row[:2] for row in rows] == [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)]
    assert rows[4][2] == seen.depth_attention[2, 1]
    rows = list(zip(*seen.expert_usage_rows().values(), strict=True))
    assert len(rows) == 3 * 5
    assert rows[6] == (2, 1, seen.selections[1, 1])
