"""Forms of recurrence: own layers around the recurrent one, and a pool of experts for all layers."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest
import torch
from torch import Tensor

from dreamer_study.model import ops
from dreamer_study.model.accounting import flops_per_token, parameters, resources
from dreamer_study.model.config import la
from dreamer_study.model.dreamer import Block, Dreamer
from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.matching import match
from dreamer_study.pipeline.errors import InputError
from tests.model.tiny_network import (
    AROUND,
    DR,
    DR_DA,
    FORMS,
    LA,
    LATE,
    build,
    counts_of,
    gradients,
    random_documents,
    random_tokens,
    twin,
)

pytestmark = pytest.mark.usefixtures("engine")


# What is as before


def hashed(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("config", "description", "names"),
    [
        (LA, "433dfc3141cdd43d", "bc9fd9a21f63e6ae"),
        (DR, "d92876725a49e767", "370f287b6dd0a92b"),
        (DR_DA, "90585be423041ea0", "567815d484e58253"),
    ],
    ids=["LA", "DR", "DR+DA"],
)
def test_models_of_before_are_described_as_before(config, description, names):
    """Runs are named by the description, and weights are loaded by these names: the digests are
    those of before there were forms."""
    assert hashed(config.to_dict()) == description
    assert hashed([[name, list(value.shape)] for name, value in state(config)]) == names


def state(config: DreamerConfig) -> list[tuple[str, Tensor]]:
    return list(Dreamer(config).state_dict().items())


def test_a_form_is_described_by_its_own_fields_and_read_again():
    config = FORMS["DR+DA+own+pool"]
    described = config.to_dict()
    assert described.keys() - DR_DA.to_dict().keys() == {"prelude", "coda", "expert_pool"}
    assert DreamerConfig(**json.loads(json.dumps(described))) == config
    assert DreamerConfig(**DR_DA.to_dict()) == DR_DA


# What is refused


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prelude": 1}, "prelude is 1, but only a recurrent model has one"),
        ({"coda": 2}, "coda is 2, but only a recurrent model has one"),
        ({"recurrent": True, "prelude": -1}, "prelude is -1"),
        ({"recurrent": True, "prelude": True}, "prelude is True"),
        (
            {"recurrent": True, "prelude": 2, "coda": 1},
            r"prelude and coda are 2 and 1, but together they must be less than depth \(3\)",
        ),
        ({"recurrent": True, "expert_pool": True}, "has one pool of experts already"),
        ({"expert_pool": 1}, "expert_pool is 1"),
        ({"recurrence_after": 100}, "recurrence_after is 100, but only a recurrent model has one"),
        ({"recurrent": True, "recurrence_after": -1}, "recurrence_after is -1"),
    ],
)
def test_forms_that_make_no_sense_are_refused(changes, said):
    with pytest.raises(InputError, match=said):
        dataclasses.replace(LA, **changes)


# Own layers around the recurrent one


class NormedAround(Dreamer):
    """LA whose residual stream is normalised before and after its second layer."""

    def layer(self, block: Block, x: Tensor, *others):
        is_second = block is self.blocks[1]
        y, attended = super().layer(block, self.norm(x) if is_second else x, *others)
        return (self.norm(y) if is_second else y), attended


@pytest.mark.parametrize("depth_attention", [False, True])
def test_around_one_iteration_they_are_the_layers_of_la(depth_attention):
    """With a bank of one projection, and routers that do not look at the depth: as in
    test_layered_and_recurrent_are_the_same_network_at_depth_1."""
    layered = dataclasses.replace(LA, depth_attention=depth_attention)
    expected = NormedAround(layered).double()
    expected.load_state_dict(build(layered).state_dict())
    changes = {"recurrent": True, "prelude": 1, "coda": 1, "shared_expert": False}
    model = build(dataclasses.replace(layered, **changes))
    with torch.no_grad():
        for name, parameter in expected.named_parameters():
            if name.startswith("blocks.1.") and ".experts.router.query" in name:
                parameter.zero_()  # without a query no depth code
        source = expected.state_dict()
        target = model.state_dict()
        for name, value in target.items():
            if name in source and value.shape == source[name].shape:
                value.copy_(source[name])
            elif "projections.router" in name:
                value.zero_()  # a score of a half
            else:
                assert value.shape == (1, *source[name].shape), name
                value[0] = 2 * source[name]  # what the score of a half undoes
        for name, value in target.items():
            if "projections.router.keys" in name:
                value.normal_()
    torch.testing.assert_close(model(random_tokens()), expected(random_tokens()))
    one = gradients(model, random_tokens(), documents=random_documents())[1]
    other = gradients(expected, random_tokens(), documents=random_documents())[1]
    for name in other:
        if name.startswith(("embedding", "head", "gain", "blocks.0.", "blocks.2.")):
            torch.testing.assert_close(one[name], other[name])


def test_the_recurrent_layer_is_told_its_depth_among_all():
    """At depth 5 with a prelude of 1 and a coda of 2 its depths are 2 and 3 of 5."""
    model = build(FORMS["DR+DA+own"])
    _, of_heads, of_routing = model._codes(torch.zeros(1, 1, dtype=torch.long), 5, torch.float64)
    seen = []

    def prepare(dtype, code, tokens, pool=None, *, original=model.blocks[1].prepare):
        seen.append(code)
        return original(dtype, code, tokens, pool)

    model.blocks[1].prepare = prepare
    model(random_tokens())
    assert torch.equal(seen[0], of_routing[1:3])
    assert len(of_heads) == 5


@pytest.mark.parametrize("name", ["DR+own", "DR+DA+own", "DR+DA+own+pool"])
def test_other_depths_change_the_number_of_iterations(name):
    config = FORMS[name]
    model = build(config).eval()
    tokens = random_tokens()
    with torch.no_grad():
        outputs = {depth: model(tokens, depth=depth) for depth in (4, 5, 8)}
    assert torch.equal(outputs[5], model(tokens))
    assert all(output.isfinite().all() for output in outputs.values())
    assert not torch.allclose(outputs[4], outputs[5])
    assert config.other_depths((1, 3, 4, 5, 8)) == (4, 8)
    with pytest.raises(InputError, match="whole number of at least 4"):
        model(tokens, depth=3)


# A pool of experts


def without_pool(model: Dreamer) -> Dreamer:
    """The same model, each layer with a copy of the pool's experts as its own."""
    config = dataclasses.replace(model.config, expert_pool=False)
    other = Dreamer(config).to(model.embedding.dtype)
    state = model.state_dict()
    for side in ("inward", "outward"):
        of_pool = state.pop(f"pool.{side}")
        for layer in range(config.layers):
            state[f"blocks.{layer}.attentions.experts.{side}"] = of_pool
    other.load_state_dict(state)
    return other


@pytest.mark.parametrize(
    "config",
    [
        dataclasses.replace(LA, depth=1, expert_pool=True),
        FORMS["LA+pool"],
        FORMS["DR+DA+own+pool"],
    ],
    ids=["one layer", "LA+pool", "DR+DA+own+pool"],
)
def test_a_pool_is_what_layers_with_equal_experts_are(config):
    model = build(config)
    logits, found = gradients(model, random_tokens(), documents=random_documents())
    other = without_pool(model)
    expected, of_layers = gradients(other, random_tokens(), documents=random_documents())
    torch.testing.assert_close(logits, expected)
    for side in ("inward", "outward"):
        of_pool = found.pop(f"pool.{side}")
        own = [of_layers.pop(f"blocks.{i}.attentions.experts.{side}") for i in range(config.layers)]
        torch.testing.assert_close(of_pool, sum(own))
    assert found.keys() == of_layers.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, of_layers[name], msg=name)
    assert parameters(config) == parameters(other.config) - (config.layers - 1) * sum(
        weights.numel() for weights in model.pool.parameters()
    )
    assert flops_per_token(config) == flops_per_token(other.config)


def test_the_rows_of_all_layers_make_the_gradient_of_a_pool_on_a_gpu(as_gpu, monkeypatch):
    """There the experts' gradients are made of the rows of several depths."""
    with ops.engine("torch"):
        model = build(FORMS["LA+pool"])
        uses = []
        original = ops.torch_kernels.gradient_taps

        def taps(inward, outward, number, *others):
            uses.append(number)
            return original(inward, outward, number, *others)

        monkeypatch.setattr(ops.torch_kernels, "gradient_taps", taps)
        _, found = gradients(model, random_tokens())
        assert uses == [3]
        _, of_layers = gradients(without_pool(model), random_tokens())
    for side in ("inward", "outward"):
        own = [of_layers[f"blocks.{i}.attentions.experts.{side}"] for i in range(3)]
        torch.testing.assert_close(found[f"pool.{side}"], sum(own))


@pytest.mark.parametrize("name", ["LA+pool", "DR+DA+own+pool"])
def test_a_pool_is_balanced_by_the_counts_of_all_layers(name):
    model = build(FORMS[name])
    model(random_tokens())
    of_experts = {name: counts for name, counts in counts_of(model).items() if ".experts." in name}
    total = sum(of_experts.values())
    before = {name: router.bias.clone() for name, router in model.routers().items()}
    model.update_balance()
    expected = model.config.expert_bias_rate * torch.sign(total.double().quantile(0.5) - total)
    for name in of_experts:
        moved = model.routers()[name].bias - before[name]
        torch.testing.assert_close(moved, expected.to(moved.dtype))
    assert not any(counts.any() for counts in counts_of(model).values())
    assert len({tuple(counts.tolist()) for counts in of_experts.values()}) > 1, "they differ"


def test_a_copy_of_a_model_has_a_pool_of_its_own():
    model = build(FORMS["LA+pool"])
    other = twin(model)
    with torch.no_grad():
        model.pool.inward.zero_()
    assert other.pool.inward.any()


# Recurrence that begins late


def test_until_it_begins_the_recurrent_layer_is_used_once():
    config = LATE
    late = build(config)
    at_once = build(FORMS["DR+DA+own"])
    tokens = random_tokens()
    with torch.no_grad():
        expected = {depth: at_once(tokens, depth=depth) for depth in (4, 5)}
        assert torch.equal(late(tokens), expected[4])
        assert [late.begin_step(read) for read in (0, 99, 100, 101)] == [False, False, True, False]
        assert torch.equal(late(tokens), expected[5])
        assert torch.equal(late.for_inference()(tokens), at_once.for_inference()(tokens))
    assert parameters(config) == parameters(at_once.config)
    assert config.other_depths((1, 4, 5, 8)) == ()


def test_a_checkpoint_knows_whether_recurrence_has_begun():
    config = LATE
    model = build(config)
    other = Dreamer(config).double()
    for read in (99, 100):
        model.begin_step(read)
        other.load_state_dict(model.state_dict())
        with torch.no_grad():
            assert torch.equal(other(random_tokens()), model(random_tokens()))


def test_a_late_model_says_what_its_flops_are():
    (remark,) = resources(LATE).remarks
    assert "before 100 tokens" in remark
    assert not resources(FORMS["DR+DA+own"]).remarks


# Costs


@pytest.mark.parametrize(
    "changes",
    [
        {"recurrent": True, "prelude": 1, "coda": 1},
        {"recurrent": True, "depth_attention": True, "prelude": 1},
        {"recurrent": True, "coda": 2},
        {"expert_pool": True},
        {"recurrent": True, **AROUND, "depth": 4, "coda": 1, "expert_pool": True},
    ],
    ids=str,
)
def test_forms_are_matched_as_the_others(changes):
    baseline = la(
        4,
        hidden_size=64,
        query_heads=4,
        key_value_heads=4,
        head_size=16,
        depth_head_size=16,
        experts=4,
        active_experts=2,
        expert_size=64,
        routing_size=32,
        vocabulary_size=320,
    )
    found = match(baseline, dataclasses.replace(baseline, **changes))
    assert flops_per_token(found) == pytest.approx(flops_per_token(baseline), rel=0.015)
    assert parameters(found) == pytest.approx(parameters(baseline), rel=0.04)
