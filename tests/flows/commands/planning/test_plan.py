"""`dreamer plan` where there are GPUs."""

from __future__ import annotations

import pytest
import torch

from flows.commands.cli import main


@pytest.mark.parametrize(("capability", "said"), [((8, 0), True), ((9, 0), False)])
def test_a_gpu_without_fast_grouped_products_is_named(
    capability: tuple[int, int], said: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert main(["plan", "gpu-small"]) == 0
    out = capsys.readouterr().out
    assert ("products  torch has no fast grouped product for a GPU of compute capability 8.0" in out) is said
