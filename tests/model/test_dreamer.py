"""The network: fast against reference, recurrence against a stack, caches against whole forwards, no leaks."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import re

import pytest
import torch
from torch import Tensor, nn

from model import ops
from model.architecture import MIXTURES
from model.dreamer import Context, Dreamer
from model.ops import Documents
from model.ops.torch_kernels import attention as torch_attention
from model.ops.types import document_positions
from pipeline.errors import InputError
from tests.model.conftest import attend_documents
from tests.model.tiny_network import (
    DR,
    DR_DA,
    LA,
    TINY,
    VARIANTS,
    assert_same_gradients,
    build,
    by_reference,
    counts_of,
    gradients,
    random_documents,
    random_tokens,
    twin,
)

pytestmark = pytest.mark.usefixtures("engine")

# Fast against reference


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("config", VARIANTS)
def test_fast_equals_reference_in_outputs_gradients_and_counts(config, mixture):
    fast = build(dataclasses.replace(config, mixture=mixture))
    slow, options = twin(fast), {"documents": random_documents()}
    expected = by_reference(gradients, slow, random_tokens(), **options)
    assert_same_gradients(gradients(fast, random_tokens(), **options), expected)
    counts, expected = counts_of(fast), counts_of(slow)
    assert all((counts[name] == expected[name]).all() for name in expected)


@pytest.mark.parametrize(
    "change",
    [
        {"depth_window": 2},
        {"depth_heads": 4, "depth_key_value_heads": 4},
        {"depth_heads": 1},
        {"key_value_heads": 4},
        {"key_value_heads": 1},
        {"experts": 40, "active_experts": 1},
        {"depth": 1},
        {"shared_expert": False},
        {"hidden_size": 18, "head_size": 6, "routing_size": 4},  # rows that torch's grouped product does not take
    ],
    ids=str,
)
def test_fast_equals_reference_for_other_sizes(change):
    fast = build(dataclasses.replace(DR_DA, **change))
    assert_same_gradients(gradients(fast, random_tokens()), by_reference(gradients, fast, random_tokens()))


# Recurrence


def unrolled(model: Dreamer, tokens: Tensor) -> tuple[Tensor, nn.ModuleList]:
    """The logits of a stack with a copy of the shared block at every depth, and the copies."""
    blocks = nn.ModuleList(copy.deepcopy(model.blocks[0]) for _ in range(model.config.depth))
    documents, dtype = Documents(tokens), model.embedding.dtype
    positions, depths, routing = model._codes(documents.positions, len(blocks), dtype)
    x, histories = model.norm(model.embedding[tokens.flatten()]), {}
    for depth, block in enumerate(blocks):
        *_, weights = itertools.islice(block.prepare(dtype, routing, tokens.numel()), depth + 1)
        x, results = block(x, weights, Context(depth, positions, depths[depth], documents), histories)
        histories = {name: result.history for name, result in results.items()}
        x = model.norm(x)
    return (x @ model.head.T).view(*tokens.shape, -1), blocks


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("config", [DR, DR_DA], ids=["DR", "DR+DA"])
def test_recurrence_is_a_stack_of_equal_layers(config, depth):
    model = build(dataclasses.replace(config, depth=depth))
    tokens = random_tokens()
    logits = model(tokens)
    logits.square().sum().backward()
    stacked, blocks = unrolled(model, tokens)
    torch.testing.assert_close(stacked, logits)
    stacked.square().sum().backward()
    for name, parameter in model.blocks[0].named_parameters():
        together = sum(dict(block.named_parameters())[name].grad for block in blocks)
        torch.testing.assert_close(together, parameter.grad / 2 if name == "gain" else parameter.grad)


def test_layered_and_recurrent_are_the_same_network_at_depth_1():
    """With a bank of one projection, routers that do not look at the depth, and an embedding already normalised."""
    layered = build(dataclasses.replace(LA, depth=1, norm_epsilon=1e-12))
    recurrent = build(dataclasses.replace(DR, depth=1, norm_epsilon=1e-12, shared_expert=False))
    with torch.no_grad():
        for part in ("embedding", "head", "gain"):
            getattr(recurrent, part).copy_(getattr(layered, part))
        recurrent.gain.fill_(1.0)
        layered.gain.fill_(1.0)
        source, target = layered.blocks[0].attentions, recurrent.blocks[0].attentions
        target["experts"].load_state_dict(source["experts"].state_dict())
        for gain in ("gain", "query_gain", "key_gain"):
            getattr(target["sequence"], gain).copy_(getattr(source["sequence"], gain))
        # Values and updates are each scaled by the score of the one expert, so a score of a half is undone beforehand.
        target["sequence"].projections.router.keys.normal_()
        target["sequence"].projections.router.query.zero_()
        target["sequence"].projections.inward[0] = 2 * source["sequence"].projections.inward
        target["sequence"].projections.outward[0] = 2 * source["sequence"].projections.outward
        target["experts"].router.query.zero_()  # without a query no depth code either
        source["experts"].router.query.zero_()
        layered.embedding.copy_(ops.rms_norm(layered.embedding, layered.gain, layered.config.norm_epsilon))
        recurrent.embedding.copy_(layered.embedding)
    torch.testing.assert_close(layered(random_tokens()), recurrent(random_tokens()))


@pytest.mark.parametrize("config", [DR, DR_DA], ids=["DR", "DR+DA"])
def test_other_depths_run_on_the_same_weights(config):
    model = build(config).eval()
    tokens = random_tokens()
    outputs = [model(tokens, depth=depth) for depth in (1, 2, 3, 7)]
    torch.testing.assert_close(outputs[2], model(tokens))
    assert all(output.isfinite().all() for output in outputs)
    assert not torch.allclose(outputs[1], outputs[2])
    torch.testing.assert_close(outputs[3], by_reference(model, tokens, depth=7))


def test_a_depth_that_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="exactly 3 layers"):
        build(LA)(random_tokens(), depth=4)
    for depth in (0, 2.0, "3", True):
        with pytest.raises(InputError, match="whole number of at least 1"):
            build(DR)(random_tokens(), depth=depth)


# What must not leak


@pytest.mark.parametrize(
    ("given", "shape", "expected"),
    [
        ("positions", (1, 6), [2, 6]),
        ("documents", (1, 6), [2, 6]),
        ("documents", (2, 3), [2, 6]),
    ],
)
def test_what_does_not_fit_the_tokens_is_refused(given, shape, expected):
    model = build(DR_DA)
    said = re.escape(f"{given} are {list(shape)}, but for these tokens they must be {expected}")
    with pytest.raises(InputError, match=said):
        model(torch.zeros(2, 6, dtype=torch.long), **{given: torch.zeros(shape, dtype=torch.long)})
    with pytest.raises(InputError, match=r"tokens are \[1, 0\]"):
        model(torch.zeros(1, 0, dtype=torch.long))


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("config", VARIANTS)
def test_no_token_sees_a_later_one(config, mixture):
    model = build(dataclasses.replace(config, mixture=mixture))
    tokens = random_tokens()
    changed = tokens.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % TINY.vocabulary_size
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :6], after[:, :6], atol=1e-12, rtol=0)
    assert not torch.allclose(before[:, 6:], after[:, 6:])


@pytest.mark.parametrize("config", VARIANTS)
def test_packed_documents_are_read_as_if_alone(config):
    model, tokens, documents = build(config), random_tokens(), random_documents()
    packed = model(tokens, documents=documents)
    for row, start, end in ((0, 0, 4), (0, 4, 9), (1, 0, 7), (1, 7, 11)):
        torch.testing.assert_close(packed[row, start:end], model(tokens[row : row + 1, start:end])[0])


@pytest.mark.parametrize("config", VARIANTS)
def test_ragged_rows_need_no_mask(config, monkeypatch):
    model = build(config)
    expected = gradients(model, random_tokens(), documents=random_documents())
    monkeypatch.setattr(torch_attention, "takes_packed", lambda dtype, device, head_size: True)
    monkeypatch.setattr(torch_attention, "_packed_kernel", lambda: (attend_documents, {}))
    monkeypatch.setattr(Documents, "mask", lambda *_: pytest.fail("a mask is made"))
    with ops.engine("torch"):
        assert_same_gradients(gradients(model, random_tokens(), documents=random_documents()), expected)


def test_bounds_of_documents():
    labels = torch.tensor([[0, 0, 1, -1], [1, 1, 1, 0]])
    documents = Documents(labels, labels)
    assert documents.bounds.tolist() == [0, 2, 3, 4, 7, 8]
    assert documents.starts.tolist() == [0, 0, 2, 3, 4, 4, 4, 7]
    alone = Documents(labels)
    assert alone.bounds.tolist() == [0, 4, 8]
    assert alone.starts.tolist() == [0] * 4 + [4] * 4
    assert alone.mask(torch.float32) is None
    assert (alone.pairs == torch.ones(4, 4).tril().bool()).all()


def test_positions_restart_with_each_document():
    assert document_positions(random_documents()).tolist() == [
        [0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1],
        [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3],
    ]
    model, tokens, documents = build(DR_DA), random_tokens(), random_documents()
    positions = document_positions(documents)
    torch.testing.assert_close(
        model(tokens, documents=documents, positions=positions), model(tokens, documents=documents)
    )
    # Only distances matter to RoPE itself; gains behind it, once learned, let absolute positions through.
    shifted = model(tokens, documents=documents, positions=positions + 100)
    assert not torch.allclose(shifted, model(tokens, documents=documents))
    fresh = Dreamer(DR_DA).double()
    shifted = fresh(tokens, documents=documents, positions=positions + 100)
    torch.testing.assert_close(shifted, fresh(tokens, documents=documents))


def test_no_depth_sees_a_later_one():
    """What depth 2 attends to has no gradient from, and no score for, anything computed at depth 3."""
    model = build(DR_DA)
    results = []
    model(random_tokens(), observer=lambda depth, name, result: results.append(result) if name == "depth" else None)
    assert [result.scores.shape[-1] for result in results] == [1, 2, 3]
    assert [len(result.history) for result in results] == [1, 2, 3]
    (first, _), (second, _), (third, _) = results[2].history
    assert torch.autograd.grad(results[1].output.sum(), third, allow_unused=True, retain_graph=True) == (None,)
    assert all(gradient.abs().sum() > 0 for gradient in torch.autograd.grad(results[2].output.sum(), (first, second)))


def test_a_memory_has_positions_and_documents_of_its_own():
    tokens = random_tokens()
    with pytest.raises(InputError, match="neither documents nor positions"):
        build(DR)(tokens, memory=Documents(tokens), documents=torch.zeros_like(tokens))
