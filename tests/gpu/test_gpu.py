"""On a GPU: kernels, network and training compute what the CPU does."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks.gpu.memory import PRESETS, read_preset
from dreamer_study.model.config import DreamerConfig
from dreamer_study.model.evaluation.generate import generate
from dreamer_study.model.ops import Routing, cross_entropy_sum, swiglu_experts
from dreamer_study.model.ops.torch_kernels.routing import dispatch
from dreamer_study.model.train import train
from dreamer_study.model.training.compile_and_recompute import compile_parts
from dreamer_study.model.training.config import read_run
from dreamer_study.model.training.random_stream import write_random_stream
from dreamer_study.model.training.trainer import Trainer
from tests.model.conftest import as_gpu  # noqa: F401  a fixture
from tests.model.packed_folder import write_run
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

T, A, H, F, V = 96, 2, 32, 16, 64


@pytest.fixture(params=["gpu", "cpu"])
def device(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[torch.device]:
    """The first GPU where there is one, and a CPU that is treated as a GPU, at small sizes,
    everywhere."""
    if request.param == "gpu":
        if not torch.cuda.is_available():
            pytest.skip("no GPU")
        chosen = torch.device("cuda", 0)
    else:
        request.getfixturevalue("as_gpu")
        chosen = torch.device("cpu")
    monkeypatch.setattr("dreamer_study.model.training.trainer.choose_device", lambda *_: chosen)
    yield chosen
    torch.cuda.empty_cache()  # nothing without a GPU


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape).bfloat16()


def assert_near_the_reference(
    operation: Callable[..., Tensor], device: torch.device, *given: Tensor
) -> None:
    """The result and all gradients, each within a fiftieth of the reference's norm."""
    here = [tensor.to(device).requires_grad_() for tensor in given]
    wide = [tensor.double().requires_grad_() for tensor in given]
    found, wanted = operation(*here), by_reference(operation, *wide)
    weight = torch.randn(wanted.shape, dtype=torch.float64)
    pairs = [(found, wanted)]
    gradients = (
        torch.autograd.grad((result * weight.to(result)).sum(), leaves)
        for result, leaves in ((found, here), (wanted, wide))
    )
    pairs += zip(*gradients, strict=True)
    for one, other in pairs:
        assert (one.cpu().double() - other).norm() < 0.02 * other.norm()


@pytest.mark.slow
@pytest.mark.parametrize("experts", [12, 1100], ids=["12", "more than one grouped product takes"])
def test_experts_of_which_half_have_no_token(device: torch.device, experts: int) -> None:
    torch.manual_seed(0)
    ids = torch.rand(T, experts // 2).topk(A, dim=-1).indices * 2
    scores = torch.rand(T, A).softmax(dim=-1)

    def operation(x: Tensor, inward: Tensor, outward: Tensor) -> Tensor:
        chosen = ids.to(x.device)
        return swiglu_experts(
            x, Routing(chosen, scores.to(x), dispatch(chosen, experts)), inward, outward
        )

    assert_near_the_reference(
        operation, device, numbers(T, H), numbers(experts, H, 2 * F), numbers(experts, F, H)
    )


@pytest.mark.parametrize("compiled", [False, True], ids=["as written", "compiled"])
def test_the_loss_of_a_large_head(device: torch.device, compiled: bool) -> None:
    if compiled and device.type == "cpu":
        pytest.skip("tests/model/ops/torch_kernels/test_operations.py compiles for the CPU")
    torch.manual_seed(0)
    targets = torch.randint(V, (T,))

    def operation(hidden: Tensor, head: Tensor) -> Tensor:
        return cross_entropy_sum(hidden, head, targets.to(hidden.device), 40 * V, compiled)

    assert_near_the_reference(operation, device, numbers(T, H), numbers(V, H))


@pytest.mark.parametrize("compiled", [False, True], ids=["as written", "compiled"])
@pytest.mark.parametrize("config", VARIANTS)
def test_gradients_in_bfloat16(device: torch.device, config, compiled: bool) -> None:
    if compiled and device.type == "cpu":
        pytest.skip("tests/model/training/test_compile_and_recompute.py compiles for the CPU")
    model = build(config, torch.float32)
    exact = by_reference(gradients, model, random_tokens(), documents=random_documents())
    narrow = twin(model, dtype=torch.bfloat16).to(device)
    if compiled:
        torch._dynamo.reset()
        compile_parts(narrow)
    logits, found = gradients(
        narrow, random_tokens().to(device), documents=random_documents().to(device)
    )
    assert_near((logits.cpu(), {name: gradient.cpu() for name, gradient in found.items()}), exact)


@pytest.mark.parametrize("config", VARIANTS)
def test_generation_writes_what_the_reference_writes(device: torch.device, config) -> None:
    model = build(config, torch.float32).eval()
    prompts = [[1, 2, 3, 4, 5], [7, 8], [9, 1, 1]]
    expected = by_reference(generate, model, prompts, max_new_tokens=6, end_token=0)
    assert generate(model.to(device), prompts, max_new_tokens=6, end_token=0) == expected


SMALL = {
    "vocabulary_size": 64,
    "hidden_size": 16,
    "experts": 16,
    "expert_size": 8,
    "sequence_length": 32,
}
MODELS = [
    pytest.param(preset, name, id=name) for preset in PRESETS for name in read_preset(preset)[0]
]


def losses(folder: Path) -> list[float]:
    trainer = Trainer(read_run(folder))
    return [trainer.train_step()[0] for _ in range(3)]


@pytest.mark.slow
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(
    device: torch.device, tmp_path: Path
) -> None:
    whole, stopped = (
        write_run(tmp_path, name=name, precision="bfloat16", compile=False) for name in "ab"
    )
    train(whole, stop_at=640)
    train(stopped, stop_at=320)
    train(stopped, stop_at=640)
    # Sums in no fixed order round differently on a GPU, from the first step on.
    assert losses(stopped) == pytest.approx(losses(whole), rel=0 if device.type == "cpu" else 0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "name"), MODELS)
def test_a_step_of_a_preset(device: torch.device, preset: str, name: str, tmp_path: Path) -> None:
    """Two micro-batches at full size on a GPU; on a CPU of a small model with the preset's
    settings."""
    configs, settings = read_preset(preset)
    config: DreamerConfig = configs[name]
    if device.type == "cpu":
        config = dataclasses.replace(config, depth=2, **SMALL)
        settings |= {"micro_batch_tokens": 4 * config.sequence_length, "compile": False}
    micro, length = settings["micro_batch_tokens"], config.sequence_length
    data = write_random_stream(
        tmp_path / "data",
        sequence_length=length,
        vocabulary_size=config.vocabulary_size,
        rows=4 * micro // length,
        document_lengths=(length // 8, length // 2),
    )
    recipe = {**settings, "tokens": 10**12, "batch_tokens": 2 * micro, "precision": "bfloat16"}
    run = {"run_id": "step", "model": config.to_dict(), "training": recipe, "data": str(data)}
    (tmp_path / "run.json").write_text(json.dumps(run))
    trainer = Trainer(read_run(tmp_path))
    found = [trainer.train_step()[0] for _ in range(3)]
    assert all(0 < loss < 20 for loss in found)
    assert not trainer.halved, "the preset's micro-batch does not fit"
