"""`dreamer plan` where there are GPUs, here or in a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flows.commands.cli import main
from tests.flows.small_study import TINY


@pytest.mark.parametrize(("capability", "said"), [((8, 0), True), ((9, 0), False)])
def test_a_gpu_without_fast_grouped_products_is_named(
    capability: tuple[int, int], said: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert main(["plan", "gpu-small"]) == 0
    out = capsys.readouterr().out
    assert ("products  torch has no fast grouped product for a GPU of compute capability 8.0" in out) is said


def test_machines_of_a_cluster_are_not_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "tiny.yaml"
    study.write_text(TINY.read_text() + "compute: {pool: slurm}\n")
    for options in ([], ["--calibrate"]):
        assert main(["plan", str(study), *options]) == 2
        said = capsys.readouterr()
        assert "compute.pool is slurm, whose machines are not known here: say --gpus N" in said.err
        assert not said.out
    assert main(["plan", str(study), "--gpus", "8"]) == 0
    assert "8 x GPU" in capsys.readouterr().out
