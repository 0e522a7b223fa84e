"""The network: equal to its definition, in parts, in routing and in training."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dreamer_study.model import ops
from dreamer_study.model.dreamer import (
    ATTENTIONS,
    Context,
    Dreamer,
    Router,
    Weights,
    balance_step,
    depth_code,
)
from dreamer_study.model.dreamer_config import MIXTURES, DreamerConfig
from dreamer_study.model.ops import Attended, Documents
from dreamer_study.model.ops.torch_kernels import attention as torch_attention
from dreamer_study.model.ops.types import document_positions
from dreamer_study.model.training.compile_and_recompute import compile_parts
from dreamer_study.pipeline.errors import InputError
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
    double,
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
        # rows that torch's grouped product does not take
        {"hidden_size": 18, "head_size": 6, "routing_size": 4},
    ],
    ids=str,
)
def test_fast_equals_reference_for_other_sizes(change):
    fast = build(dataclasses.replace(DR_DA, **change))
    assert_same_gradients(
        gradients(fast, random_tokens()), by_reference(gradients, fast, random_tokens())
    )


# Recurrence


def unrolled(model: Dreamer, tokens: Tensor) -> tuple[Tensor, nn.ModuleList]:
    """The logits of a stack with a copy of the shared block at every depth, and the copies."""
    blocks = nn.ModuleList(copy.deepcopy(model.blocks[0]) for _ in range(model.config.depth))
    documents, dtype = Documents(tokens), model.embedding.dtype
    positions, depths, routing = model._codes(documents.positions, len(blocks), dtype)
    x, histories = model.norm(model.embedding[tokens.flatten()]), {}
    for depth, block in enumerate(blocks):
        *_, weights = itertools.islice(block.prepare(dtype, routing, tokens.numel()), depth + 1)
        x, results = block(
            x, weights, Context(depth, positions, depths[depth], documents), histories
        )
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
        torch.testing.assert_close(
            together, parameter.grad / 2 if name == "gain" else parameter.grad
        )


def test_layered_and_recurrent_are_the_same_network_at_depth_1():
    """With a bank of one projection, routers that do not look at the depth, and an embedding
    already normalised."""
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
        # Values and updates are each scaled by the score of the one expert, so a score of a half is
        # undone beforehand.
        target["sequence"].projections.router.keys.normal_()
        target["sequence"].projections.router.query.zero_()
        target["sequence"].projections.inward[0] = 2 * source["sequence"].projections.inward
        target["sequence"].projections.outward[0] = 2 * source["sequence"].projections.outward
        target["experts"].router.query.zero_()  # without a query no depth code either
        source["experts"].router.query.zero_()
        layered.embedding.copy_(
            ops.rms_norm(layered.embedding, layered.gain, layered.config.norm_epsilon)
        )
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
    [("positions", (1, 6), [2, 6]), ("documents", (1, 6), [2, 6]), ("documents", (2, 3), [2, 6])],
)
def test_what_does_not_fit_the_tokens_is_refused(given, shape, expected):
    model = build(DR_DA)
    said = re.escape(
        f"{given} have shape {list(shape)}, but it must be the shape of the tokens, {expected}"
    )
    with pytest.raises(InputError, match=said):
        model(torch.zeros(2, 6, dtype=torch.long), **{given: torch.zeros(shape, dtype=torch.long)})
    with pytest.raises(InputError, match=r"tokens have shape \[1, 0\]"):
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
        torch.testing.assert_close(
            packed[row, start:end], model(tokens[row : row + 1, start:end])[0]
        )


@pytest.mark.parametrize("config", VARIANTS)
def test_ragged_rows_need_no_mask(config, monkeypatch):
    model = build(config)
    expected = gradients(model, random_tokens(), documents=random_documents())
    monkeypatch.setattr(torch_attention, "takes_packed", lambda dtype, device, head_size: True)
    monkeypatch.setattr(torch_attention, "_packed_kernel", lambda: (attend_documents, {}))
    monkeypatch.setattr(Documents, "mask", lambda *_: pytest.fail("a mask is made"))
    with ops.engine("torch"):
        assert_same_gradients(
            gradients(model, random_tokens(), documents=random_documents()), expected
        )


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
    # Only distances matter to RoPE itself; gains behind it, once learned, let absolute positions
    # through.
    shifted = model(tokens, documents=documents, positions=positions + 100)
    assert not torch.allclose(shifted, model(tokens, documents=documents))
    fresh = Dreamer(DR_DA).double()
    shifted = fresh(tokens, documents=documents, positions=positions + 100)
    torch.testing.assert_close(shifted, fresh(tokens, documents=documents))


def test_no_depth_sees_a_later_one():
    """What depth 2 attends to has no gradient from, and no score for, anything computed at depth
    3."""
    model = build(DR_DA)
    results = []
    model(
        random_tokens(),
        observer=lambda depth, name, result: results.append(result) if name == "depth" else None,
    )
    assert [result.scores.shape[-1] for result in results] == [1, 2, 3]
    assert [len(result.history) for result in results] == [1, 2, 3]
    (first, _), (second, _), (third, _) = results[2].history
    assert torch.autograd.grad(
        results[1].output.sum(), third, allow_unused=True, retain_graph=True
    ) == (None,)
    assert all(
        gradient.abs().sum() > 0
        for gradient in torch.autograd.grad(results[2].output.sum(), (first, second))
    )


def test_a_memory_has_positions_and_documents_of_its_own():
    tokens = random_tokens()
    with pytest.raises(InputError, match="no documents and no positions"):
        build(DR)(tokens, memory=Documents(tokens), documents=torch.zeros_like(tokens))


SMALL = DreamerConfig(hidden_size=8, routing_size=8, experts=5, active_experts=2, expert_size=8)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def new_router(experts: int = 5, active: int = 2, normalised: bool = True) -> Router:
    router = Router(SMALL, experts, active, rate=0.1, normalised=normalised).double()
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

    for keys, plain_keys in zip(
        router.prepare(code), by_reference(router.prepare, code), strict=True
    ):
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
    router = Router(SMALL, 5, 2, rate=0.1, normalised=True)
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
        torch.testing.assert_close(
            forward[l - 1], torch.atan2((l * frequencies).sin(), (l * frequencies).cos())
        )
        rest = (4 - l) * frequencies
        torch.testing.assert_close(backward[l - 1], torch.atan2(rest.sin(), rest.cos()))


# Balance


@pytest.mark.parametrize("config", VARIANTS)
def test_evaluation_moves_nothing(config):
    model = build(config).eval()
    before = copy.deepcopy(model.state_dict())
    model(random_tokens())
    assert all((before[name] == value).all() for name, value in model.state_dict().items())
    assert all((counts == 0).all() for counts in counts_of(model).values())


@pytest.mark.parametrize("config", VARIANTS)
def test_counts_cover_all_depths_and_leave_out_padding(config):
    model = build(config)
    model(random_tokens(), documents=random_documents())
    real = 20
    for name, counts in counts_of(model).items():
        active = config.active_experts if ".experts." in name else 1
        layer = int(name.split(".")[1])
        is_recurrent = config.recurrent and layer == config.prelude
        depths = config.iterations if is_recurrent else 1
        assert counts.sum() == real * depths * active


# Weights


@pytest.mark.parametrize("config", VARIANTS)
def test_merged_weights_give_the_same_outputs(config):
    model = build(config)
    merged = model.merged()
    torch.testing.assert_close(merged(random_tokens()), model(random_tokens()))
    assert not any("shared" in name for name in merged.state_dict())
    assert merged.merged().state_dict().keys() == merged.state_dict().keys()
    reloaded = Dreamer(DreamerConfig(**merged.config.to_dict())).double()
    reloaded.load_state_dict(merged.state_dict())
    torch.testing.assert_close(reloaded(random_tokens()), model(random_tokens()))


@pytest.mark.parametrize("config", VARIANTS)
def test_initialisation_is_table_3_and_the_first_loss_ln_v(config):
    model = Dreamer(
        dataclasses.replace(config, depth=4, vocabulary_size=512, hidden_size=64, expert_size=64)
    )
    dimensions = 3 if config.depth_attention else 2
    for name, parameter in model.named_parameters():
        if name.endswith("gain"):
            assert (parameter == 1).all()
        elif parameter.numel() > 2000:
            variance = 1 / (2.5 * 64 * 4 * dimensions) if name.endswith("outward") else 1 / (5 * 64)
            assert parameter.var().item() == pytest.approx(variance, rel=0.15), name
    tokens = torch.randint(0, 512, (8, 64))
    loss = F.cross_entropy(model(tokens).flatten(0, 1), torch.randint(0, 512, (8 * 64,)))
    assert loss.item() == pytest.approx(math.log(512), rel=0.03)
    decayed = {id(parameter) for parameter in model.decayed_parameters()}
    assert all(
        (id(parameter) in decayed) != name.endswith("gain")
        for name, parameter in model.named_parameters()
    )


# New attentions


class Slots(nn.Module):
    """Attention over a few learned slots, the same for every token: a dimension the paper does not
    have."""

    router = None

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.empty(4, config.hidden_size))
        self.outward = nn.Parameter(torch.empty(4, config.hidden_size))

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None, tokens: int) -> list[Weights]:
        return [(self.keys.to(dtype), self.outward.to(dtype))] * (
            1 if code_LP is None else len(code_LP)
        )

    def forward(self, x_TH: Tensor, weights: Weights, *rest) -> Attended:
        keys, values = weights
        return Attended((x_TH @ keys.T).softmax(dim=-1) @ values)


@pytest.mark.slow
def test_another_attention_is_not_compiled(monkeypatch, as_gpu):
    monkeypatch.setitem(ATTENTIONS, "slots", Slots)
    monkeypatch.setitem(MIXTURES, "with slots", (("depth", "sequence"), ("slots",), ("experts",)))
    model = build(dataclasses.replace(DR_DA, mixture="with slots"))
    expected = model(random_tokens())
    compile_parts(model, backend="eager", dynamic=False)
    torch.testing.assert_close(model(random_tokens()), expected)


@pytest.mark.parametrize("config", VARIANTS)
def test_another_attention_takes_part_without_touching_the_others(config, monkeypatch):
    monkeypatch.setitem(ATTENTIONS, "slots", Slots)
    monkeypatch.setitem(MIXTURES, "with slots", (("depth", "sequence"), ("slots",), ("experts",)))
    model = build(dataclasses.replace(config, mixture="with slots"))
    _, found = gradients(model, random_tokens(), documents=random_documents())
    slots = {name: gradient for name, gradient in found.items() if "slots" in name}
    assert len(slots) == 2 * config.layers
    assert all(gradient.any() for gradient in slots.values())
    assert {name.replace(".slots", "") for name in found} > {
        name for name, _ in build(config).named_parameters()
    }
    cache = model.new_cache(1, 11)
    tokens = random_tokens(1)
    steps = [cache.extend(tokens[:, place : place + 1]) for place in range(tokens.shape[1])]
    torch.testing.assert_close(model.logits(torch.cat(steps, dim=1)), model(tokens))
