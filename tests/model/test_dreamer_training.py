"""The network in training: balance, initialisation, merged weights, and an attention along another dimension."""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architecture import MIXTURES, DreamerConfig
from model.dreamer import ATTENTIONS, Dreamer, Weights
from model.ops import Attended
from tests.model.tiny_network import (
    VARIANTS,
    build,
    counts_of,
    gradients,
    random_documents,
    random_tokens,
)

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
    real, depths = 20, config.depth if config.recurrent else 1
    for name, counts in counts_of(model).items():
        active = config.active_experts if ".experts." in name else 1
        assert counts.sum() == real * depths * active


# Weights


@pytest.mark.parametrize("config", VARIANTS)
def test_merged_weights_give_the_same_outputs(config):
    model = build(config)
    merged = model.merged()
    torch.testing.assert_close(merged(random_tokens()), model(random_tokens()))
    assert not any("shared" in name for name in merged.state_dict())
    assert merged.merged().state_dict().keys() == merged.state_dict().keys()
    reloaded = Dreamer(DreamerConfig.from_dict(merged.config.to_dict())).double()
    reloaded.load_state_dict(merged.state_dict())
    torch.testing.assert_close(reloaded(random_tokens()), model(random_tokens()))


@pytest.mark.parametrize("config", VARIANTS)
def test_initialisation_is_table_3_and_the_first_loss_ln_v(config):
    torch.manual_seed(0)
    model = Dreamer(dataclasses.replace(config, depth=4, vocabulary_size=512, hidden_size=64, expert_size=64))
    dimensions = 3 if config.depth_attention else 2
    for name, parameter in model.named_parameters():
        if name.endswith("gain"):
            assert (parameter == 1).all()
        elif parameter.numel() > 2000:
            variance = 1 / (2.5 * 64 * 4 * dimensions) if name.endswith("outward") else 1 / (5 * 64)
            assert parameter.var().item() == pytest.approx(variance, rel=0.15), name
    tokens = torch.randint(0, 512, (8, 64))
    loss = F.cross_entropy(model(tokens).flatten(0, 1), torch.randint(0, 512, (8 * 64,)))
    assert loss.item() == pytest.approx(math.log(512), rel=0.02)
    decayed = {id(parameter) for parameter in model.decayed_parameters()}
    assert all((id(parameter) in decayed) != name.endswith("gain") for name, parameter in model.named_parameters())


# New attentions


class Slots(nn.Module):
    """Attention over a few learned slots, the same for every token: a dimension the paper does not have."""

    router = None

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.empty(4, config.hidden_size))
        self.outward = nn.Parameter(torch.empty(4, config.hidden_size))

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None, tokens: int) -> list[Weights]:
        return [(self.keys.to(dtype), self.outward.to(dtype))] * (1 if code_LP is None else len(code_LP))

    def forward(self, x_TH: Tensor, weights: Weights, *rest) -> Attended:
        keys, values = weights
        return Attended((x_TH @ keys.T).softmax(dim=-1) @ values)


@pytest.mark.parametrize("config", VARIANTS)
def test_another_attention_takes_part_without_touching_the_others(config, monkeypatch):
    monkeypatch.setitem(ATTENTIONS, "slots", Slots)
    monkeypatch.setitem(MIXTURES, "with slots", (("depth", "sequence"), ("slots",), ("experts",)))
    model = build(dataclasses.replace(config, mixture="with slots"))
    _, found = gradients(model, random_tokens(), documents=random_documents())
    slots = {name: gradient for name, gradient in found.items() if "slots" in name}
    assert len(slots) == 2 * config.layers
    assert all(gradient.any() for gradient in slots.values())
    assert {name.replace(".slots", "") for name in found} > {name for name, _ in build(config).named_parameters()}
    cache = model.new_cache(1, 11)
    tokens = random_tokens(1)
    steps = [cache.extend(tokens[:, place : place + 1]) for place in range(tokens.shape[1])]
    torch.testing.assert_close(model.logits(torch.cat(steps, dim=1)), model(tokens))
