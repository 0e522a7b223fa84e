"""Recomputed activations and compiled parts: the same results as the network that they wrap."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch

from model import ops
from model.training.wrapping import compile_parts, recompute_activations
from tests.model.tiny_network import (
    VARIANTS,
    assert_near,
    assert_same_gradients,
    build,
    counts_of,
    gradients,
    random_documents,
    random_tokens,
    twin,
)


@pytest.mark.parametrize("config", VARIANTS)
def test_checkpointing_changes_neither_gradients_nor_counts(config):
    plain = build(config)
    checkpointed = twin(plain)
    recompute_activations(checkpointed)
    expected, found = gradients(plain, random_tokens()), gradients(checkpointed, random_tokens())
    assert_same_gradients(found, expected, atol=0, rtol=0)
    counts, wanted = counts_of(checkpointed), counts_of(plain)
    assert all((counts[name] == wanted[name]).all() for name in wanted)


@pytest.mark.parametrize("config", VARIANTS)
def test_a_layer_is_recomputed_by_the_engine_that_computed_it(one_thread, config):
    model = build(config)
    recompute_activations(model)
    with ops.engine("torch"):
        loss = model(random_tokens()).square().sum()
    loss.backward()  # outside of the block
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("config", VARIANTS)
def test_a_copy_recomputes_its_own_layers(config):
    model = build(config)
    recompute_activations(model)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.gain.mul_(2)
    plain = twin(other)
    assert torch.equal(other(random_tokens()), plain(random_tokens()))


@pytest.mark.slow
@pytest.mark.parametrize("config", VARIANTS)
def test_compiled_once_for_all_depths_and_steps(config):
    """Traced without a compiler behind it: nothing that changes with the depth may ask for a new graph."""
    from torch._dynamo import config as dynamo
    from torch._dynamo import utils as dynamo_utils

    torch._dynamo.reset()
    dynamo_utils.counters.clear()
    model = twin(build(dataclasses.replace(config, depth=6), torch.float32), dtype=torch.bfloat16)
    compiled = twin(model, dtype=torch.bfloat16)
    compile_parts(compiled, backend="aot_eager", dynamic=False)
    expected = gradients(model, random_tokens(), documents=random_documents())
    assert_near(gradients(compiled, random_tokens(), documents=random_documents()), expected)
    graphs = dynamo_utils.counters["stats"]["unique_graphs"]
    assert graphs <= (10 if config.depth_attention else 4)  # attention along six depths has six
    assert not dynamo_utils.counters["graph_break"]
    with dynamo.patch(error_on_recompile=True):
        gradients(compiled, random_tokens().flip(0), documents=random_documents())
    assert dynamo_utils.counters["stats"]["unique_graphs"] == graphs
