"""The counts against the paper's Table 1, against torch's own counting, and against each other."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model import ops
from model.accounting import (
    flops_by_component,
    flops_per_token,
    memory_by_component,
    memory_bytes,
    parameters,
    parameters_by_component,
    training_flops_per_token,
)
from model.config import DreamerConfig
from model.dreamer import Dreamer
from tests.model.tiny_network import DR_DA, VARIANTS

# Table 1 (parameters in billions, FLOPs in billions per token, memory in GB) with the sizes of Table 3.
TABLE = [
    ("LA", 16, 512, 32, "1.1708", 0.9389, 4.7827),
    ("DR", 16, 504, 517, "1.1704", 0.9389, 4.7822),
    ("DR+DA", 16, 480, 537, "1.1708", 0.9413, 4.7839),
    ("LA", 32, 512, 32, "2.0790", 1.6150, 6.6337),
    ("DR", 32, 504, 1039, "2.0794", 1.6199, 6.6343),
    ("DR+DA", 32, 472, 1097, "2.0788", 1.6130, 6.6349),
]


def paper_config(variant: str, depth: int, expert_size: int, experts: int) -> DreamerConfig:
    return DreamerConfig(
        depth=depth,
        recurrent="DR" in variant,
        depth_attention="DA" in variant,
        expert_size=expert_size,
        experts=experts,
    )


PAPER = [pytest.param(paper_config(*row[:4]), *row[4:], id=f"{row[0]}-{row[1]}") for row in TABLE]


@pytest.mark.parametrize(("config", "printed", "flops", "memory"), PAPER)
def test_table_1(config, printed, flops, memory):
    assert f"{parameters(config) / 1e9:.4f}" == printed
    assert flops_per_token(config) / 1e9 == pytest.approx(flops, rel=0.002)
    with torch.device("meta"):
        model = Dreamer(config)
    assert parameters(config) == sum(parameter.numel() for parameter in model.parameters())


def test_memory_differs_from_table_1_by_the_same_amount_for_every_model():
    """What the paper measured is 2.41 GB more for all six models: the measuring program's, not a model's."""
    missing = [memory * 1e9 - memory_bytes(config) for config, _, _, memory in (row.values for row in PAPER)]
    assert max(missing) - min(missing) < 3e6
    assert missing[0] == pytest.approx(2.407e9, rel=0.001)


@pytest.mark.parametrize("config", VARIANTS)
def test_parameters_are_those_of_the_network(config):
    model = Dreamer(config)
    assert parameters(config) == sum(parameter.numel() for parameter in model.parameters())
    parts = parameters_by_component(config)
    assert parts["embedding"] == model.embedding.numel()
    assert parts["experts"] == sum(
        block.attentions["experts"].inward.numel() + block.attentions["experts"].outward.numel()
        for block in model.blocks
    )
    assert parts["norms"] == sum(parameter.numel() for parameter in model.parameters() if parameter.ndim < 2)
    merged = model.merged()
    assert parameters(merged.config) == sum(parameter.numel() for parameter in merged.parameters())


def grouped_product_flops(a, b, offs=None, bias=None, out_dtype=None, *, out_val=None, **_) -> int:
    """Rows times their own matrix, or (the gradient of the weights) columns times columns: each row is used once."""
    return 2 * a[0] * a[1] * b[-1]


def attention_flops(query, key, value, *_, out_val=None, **__) -> int:
    """Two products of every query with every key, seen or not; heads may share keys."""
    return 4 * query[0] * query[1] * query[2] * key[2] * query[3]


def counted_flops(model: Dreamer, tokens: torch.Tensor) -> int:
    formulas = {
        torch.ops.aten._grouped_mm: grouped_product_flops,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops,
    }
    with ops.engine("torch"), FlopCounterMode(display=False, custom_mapping=formulas) as counter, torch.no_grad():
        model(tokens)
    return counter.get_total_flops()


@pytest.mark.parametrize("config", VARIANTS)
def test_flops_are_those_torch_counts(config):
    tokens = torch.randint(0, config.vocabulary_size, (2, 24))
    counted = counted_flops(Dreamer(config), tokens)
    expected = flops_by_component(config, 24, causal=False)
    expected.pop("depth_attention", None)  # computed elementwise, as the depths are few: torch counts products only
    assert counted == tokens.numel() * sum(expected.values())


def test_lengths_change_only_what_grows_with_them():
    config = paper_config("DR+DA", 16, 480, 537)
    short, long = flops_by_component(config, 128), flops_by_component(config, 4096)
    assert {name for name in short if short[name] != long[name]} == {"sequence_attention"}
    assert long["sequence_attention"] / short["sequence_attention"] == pytest.approx(4097 / 129)
    assert training_flops_per_token(config, 128) == 3 * flops_per_token(config, 128)
    assert training_flops_per_token(config) == 3 * flops_per_token(config, config.sequence_length)
    short, long = memory_by_component(config, 128), memory_by_component(config, 4096)
    assert {name for name in short if short[name] != long[name]} == {"sequence_cache"}


def test_a_window_over_depth_saves_what_it_hides():
    windowed = dataclasses.replace(DR_DA, depth_window=1)
    whole, cut = flops_by_component(DR_DA), flops_by_component(windowed)
    assert cut["depth_attention"] == whole["depth_attention"] / 2  # 1 depth instead of (1 + 2 + 3) / 3
    assert memory_by_component(windowed)["depth_cache"] == memory_by_component(DR_DA)["depth_cache"] / 3
