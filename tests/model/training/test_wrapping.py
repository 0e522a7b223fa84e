"""Recomputed activations and compiled parts: the same results as the network that they wrap."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch._dynamo.utils import counters

from model import ops
from model.training.wrapping import compile_parts, recompute_activations
from tests.model.tiny_network import (
    DR_DA,
    LA,
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
def test_compiled_once_for_all_depths_and_steps(config, as_gpu):
    """Traced without a compiler behind it: nothing that changes with the depth may ask for a new graph."""
    from torch._dynamo import config as dynamo

    torch._dynamo.reset()
    counters.clear()
    model = twin(build(dataclasses.replace(config, depth=6), torch.float32), dtype=torch.bfloat16)
    compiled = twin(model, dtype=torch.bfloat16)
    compile_parts(compiled, backend="aot_eager", dynamic=False)
    expected = gradients(model, random_tokens(), documents=random_documents())
    assert_near(gradients(compiled, random_tokens(), documents=random_documents()), expected)
    graphs = counters["stats"]["unique_graphs"]
    assert graphs <= (10 if config.depth_attention else 4)  # attention along six depths has six
    assert not counters["graph_break"]
    with dynamo.patch(error_on_recompile=True):
        gradients(compiled, random_tokens().flip(0), documents=random_documents())
    assert counters["stats"]["unique_graphs"] == graphs


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("config", [LA, DR_DA], ids=["LA", "DR+DA"])
def test_gradients_of_the_compiler_are_as_near_to_exact_ones(config, checkpointing, as_gpu):
    """By Inductor, in bfloat16, along the paths of a GPU; biases choose the experts, so that rounding does not."""
    torch._dynamo.reset()
    counters.clear()
    exact = build(dataclasses.replace(config, depth=2), torch.float32)
    for router in exact.routers().values():
        router.bias.copy_(100 * torch.randperm(len(router.bias)))
    plain, compiled = (twin(exact, dtype=torch.bfloat16) for _ in range(2))
    if checkpointing:
        recompute_activations(compiled)
    compile_parts(compiled, dynamic=False)
    flat = []
    for model in (exact, plain, compiled):
        _, found = gradients(model, random_tokens(), documents=random_documents())
        flat.append(torch.cat([gradient.flatten() for gradient in found.values()]))
    assert counters["stats"]["unique_graphs"] > 1
    expected, eager, found = flat
    assert (found - expected).norm() < 1.1 * (eager - expected).norm()
    assert (found - eager).norm() < 0.02 * eager.norm()
