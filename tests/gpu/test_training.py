"""Training on the device: a stopped run goes on, and a step of each preset's models fits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from benchmarks.gpu.memory import PRESETS, read_preset
from benchmarks.random_stream import write_random_stream
from model.config import DreamerConfig
from model.train import train
from model.training.config import read_run
from model.training.trainer import Trainer
from tests.model.packed_folder import write_run

SMALL = {"vocabulary_size": 64, "hidden_size": 16, "experts": 16, "expert_size": 8, "sequence_length": 32}
MODELS = [pytest.param(preset, name, id=name) for preset in PRESETS for name in read_preset(preset)[0]]


def losses(folder: Path) -> list[float]:
    trainer = Trainer(read_run(folder))
    return [trainer.train_step()[0] for _ in range(3)]


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(device: torch.device, tmp_path: Path) -> None:
    whole, stopped = (write_run(tmp_path, name=name, precision="bfloat16", compile=False) for name in "ab")
    train(whole, stop_at=640)
    train(stopped, stop_at=320)
    train(stopped, stop_at=640)
    # Sums in no fixed order round differently on a GPU, from the first step on.
    assert losses(stopped) == pytest.approx(losses(whole), rel=0 if device.type == "cpu" else 0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "name"), MODELS)
def test_a_step_of_a_preset(device: torch.device, preset: str, name: str, tmp_path: Path) -> None:
    """Two micro-batches at full size on a GPU; on a CPU of a small model with the preset's settings."""
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
