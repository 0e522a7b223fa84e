"""Recomputed activations and compiled parts: the same results as the network that they wrap."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.utils import counters
from torch._inductor import config as inductor

from dreamer_study.model import ops
from dreamer_study.model.dreamer import Dreamer
from dreamer_study.model.ops.gpu import as_on_gpu
from dreamer_study.model.training import compile_and_recompute
from dreamer_study.model.training.compile_and_recompute import (
    compile_parts,
    compiles,
    recompute_activations,
)
from tests.model.tiny_network import (
    DR_DA,
    FORMS,
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


@pytest.mark.parametrize(
    ("wanted", "triton", "compiled"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False)],
)
def test_a_gpu_compiles_unless_told_where_there_is_triton(wanted, triton, compiled, monkeypatch):
    monkeypatch.setattr(compile_and_recompute, "find_spec", lambda name: triton or None)
    assert not compiles(wanted, torch.device("cpu"))
    with as_on_gpu("cpu"):
        assert compiles(wanted, torch.device("cpu")) == compiled


# own layers, attention along the depth and the pool of experts each make graphs of their own
ALL_OF_IT = FORMS["DR+DA+own+pool"]


@pytest.mark.slow
@pytest.mark.parametrize("config", [LA, DR_DA, ALL_OF_IT], ids=["LA", "DR+DA", "DR+DA+own+pool"])
def test_compiled_once_for_all_depths_and_steps(config, as_gpu):
    """Traced without a compiler behind it: nothing that changes with the depth may ask for a new
    graph."""
    from torch._dynamo import config as dynamo

    torch._dynamo.reset()
    counters.clear()
    model = twin(build(dataclasses.replace(config, depth=6), torch.float32), dtype=torch.bfloat16)
    compiled = twin(model, dtype=torch.bfloat16)
    compile_parts(compiled, backend="aot_eager", dynamic=False)
    expected = gradients(model, random_tokens(), documents=random_documents())
    assert_near(gradients(compiled, random_tokens(), documents=random_documents()), expected)
    graphs = counters["stats"]["unique_graphs"]
    most = 10 if config.depth_attention else 4  # attention along six depths has six
    has_own_layers = config.prelude + config.coda > 0
    # layers around the recurrent one have fewer experts, in weights of another shape
    assert graphs <= most + has_own_layers
    assert not counters["graph_break"]
    with dynamo.patch(error_on_recompile=True):
        gradients(compiled, random_tokens().flip(0), documents=random_documents())
    assert counters["stats"]["unique_graphs"] == graphs


@pytest.fixture
def rounding_to_even(monkeypatch):
    """Sum rows as a GPU does: on a CPU the bag of embeddings rounds halves in bfloat16 away from
    zero, not to even."""
    monkeypatch.setattr(F, "embedding_bag", lambda places, rows, mode: rows[places].sum(dim=1))


def all_gradients(model: Dreamer, seeds: int) -> Tensor:
    """Gradients for several draws of weights, by the same compiled code: [seeds, all parameters] in
    float64.

    Biases choose the experts, so that rounding does not.
    """
    found = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if not name.endswith("gain"):
                    parameter.copy_(torch.randn(parameter.shape) / 4)
            for router in model.routers().values():
                router.bias.copy_(100 * torch.randperm(len(router.bias)))
        _, gradient = gradients(model, random_tokens(), documents=random_documents())
        found.append(torch.cat([each.double().flatten() for each in gradient.values()]))
    return torch.stack(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "checkpointing", "limit"),
    [(LA, False, 1e-5), (DR_DA, True, 0.005)],
    ids=["LA", "DR+DA recomputed"],
)
def test_the_compiler_computes_what_is_written(
    config, checkpointing, limit, as_gpu, rounding_to_even
):
    """By Inductor, in bfloat16, along the paths of a GPU, rounding between operations as these do
    one by one.

    With attention along the depth, gradients of the residual stream have three terms, which the
    compiler adds in another order than autograd.
    """
    torch._dynamo.reset()
    counters.clear()
    exact = build(dataclasses.replace(config, depth=2), torch.float32)
    plain, compiled = (twin(exact, dtype=torch.bfloat16) for _ in range(2))
    if checkpointing:
        recompute_activations(compiled)
    compile_parts(compiled, dynamic=False)
    expected = all_gradients(plain, seeds=2)
    with inductor.patch(emulate_precision_casts=True):
        found = all_gradients(compiled, seeds=2)
    assert counters["stats"]["unique_graphs"] > 1
    assert (found - expected).norm() < limit * expected.norm()
