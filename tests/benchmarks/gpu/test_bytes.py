"""Bytes and FLOPs of a step on the pretended GPU are those that can be computed by hand."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch

from benchmarks.gpu.bytes import EXPERTS, OPTIMIZER, OTHER, STEP_TOKENS, Traffic, count_traffic
from benchmarks.gpu.memory import TORCH, read_preset
from dreamer_study.model.accounting import flops_by_component, parameters

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not torch.__version__.startswith(f"{TORCH}."),
        reason=f"the pretended GPU uses private functions of {TORCH}",
    ),
]


def counted(name: str) -> tuple[dict[str, Traffic], dict[str, float], int]:
    configs, settings = read_preset("gpu-small")
    config = configs[name]
    flops = flops_by_component(config, config.sequence_length)
    return count_traffic(config, settings), flops, parameters(config)


@pytest.mark.parametrize("name", ["LA-8", "DR+DA-8"])
def test_a_step_computes_and_moves_what_its_model_asks_for(name: str) -> None:
    # a process of its own, as torch must know the device before its first backward pass
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        groups, flops, weights = executor.submit(counted, name).result()
    # the backward pass takes twice the FLOPs of the forward pass, that of flash attention 2.5 times
    assert groups[EXPERTS].flops == pytest.approx(3 * flops["experts"] * STEP_TOKENS)
    attention = 3.5 * flops["sequence_attention"] * STEP_TOKENS
    assert groups["attention"].flops == pytest.approx(attention, rel=0.01)
    # of each weight: value, gradient and two moments are read and written, the gradient is read for
    # its norm, the average of the weights is read and written; four bytes each
    assert groups[OPTIMIZER].least == pytest.approx(11 * 4 * weights, rel=0.001)
    for group, traffic in groups.items():
        assert group == OTHER or traffic.least > 0
        assert traffic.least <= traffic.written
