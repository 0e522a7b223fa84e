"""Small networks on the device against the reference on the CPU: gradients, generation, compiled steps."""

from __future__ import annotations

import pytest
import torch

from model.generate import generate
from model.training.step.wrapping import compile_parts
from tests.model.tiny_network import (
    VARIANTS,
    assert_near,
    build,
    by_reference,
    gradients,
    random_documents,
    random_tokens,
    twin,
)


@pytest.mark.parametrize("compiled", [False, True], ids=["as written", "compiled"])
@pytest.mark.parametrize("config", VARIANTS)
def test_gradients_in_bfloat16(device: torch.device, config, compiled: bool) -> None:
    if compiled and device.type == "cpu":
        pytest.skip("tests/model/training/step/test_wrapping.py compiles for the CPU")
    model = build(config, torch.float32)
    exact = by_reference(gradients, model, random_tokens(), documents=random_documents())
    narrow = twin(model, dtype=torch.bfloat16).to(device)
    if compiled:
        torch._dynamo.reset()
        compile_parts(narrow)
    logits, found = gradients(narrow, random_tokens().to(device), documents=random_documents().to(device))
    assert_near((logits.cpu(), {name: gradient.cpu() for name, gradient in found.items()}), exact)


@pytest.mark.parametrize("config", VARIANTS)
def test_generation_writes_what_the_reference_writes(device: torch.device, config) -> None:
    model = build(config, torch.float32).eval()
    prompts = [[1, 2, 3, 4, 5], [7, 8], [9, 1, 1]]
    expected = by_reference(generate, model, prompts, max_new_tokens=6, end_token=0)
    assert generate(model.to(device), prompts, max_new_tokens=6, end_token=0) == expected
