"""docs/plain-torch.md: its lines load checkpoints, and hooks see what it says."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
import torch

import dreamer_study
from dreamer_study.flows.study.presets import __file__ as presets
from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.checkpoints.models import save_weights
from dreamer_study.model.module_config import ModuleConfig
from tests.model.tiny_network import DR_DA
from tests.model.tiny_network import build as build_dreamer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "plain-torch.md").read_text(encoding="utf-8")
OWN, HOOKS, _ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TOKENS = torch.tensor([[1, 2, 3]])


def run(program: str, folder: Path) -> dict:
    """Run lines of the page on a checkpoint."""
    made: dict = {}
    exec(re.sub(r'folder = ".*"', f"folder = {str(folder)!r}", program), made)
    return made


def test_six_lines_load_a_model_of_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for line in OWN.splitlines() if line and "import" not in line]
    assert len(lines) + 1 == 6, "with that of the class"
    code = tmp_path / "code"
    code.mkdir()
    shutil.copy(Path(presets).with_name("my_models.py"), code)
    sizes = {"layers": 1, "hidden_size": 16, "heads": 2, "feed_forward": 8}
    config = ModuleConfig(
        module="my_models.py:GPT",
        config=sizes,
        files=digests(code, ["my_models.py"]),
        vocabulary_size=20,
        sequence_length=8,
    )
    network = build(config, code=code, trust_code=True).eval()
    state = network.state_dict()
    save_weights(tmp_path / "saved", config, state, averaged=state, code=code)
    monkeypatch.syspath_prepend(code)
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    model = run(OWN, tmp_path / "saved")["model"].eval()
    torch.testing.assert_close(model(TOKENS), network(TOKENS))


def test_hooks_see_every_depth_and_all_modules_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = build_dreamer(DR_DA, torch.float32).eval()
    save_weights(tmp_path / "saved", DR_DA, network.state_dict())
    ran: set[str] = set()

    def loaded(folder: str) -> torch.nn.Module:
        for name, module in network.named_modules():
            module.register_forward_hook(lambda *_, name=name: ran.add(name))
        return network

    monkeypatch.setattr(dreamer_study, "load_model", loaded)
    outputs = run(HOOKS, tmp_path / "saved")["outputs"]
    assert [tuple(output.shape) for output in outputs] == [(3, DR_DA.hidden_size)] * DR_DA.depth
    holders = ("blocks", "attentions", "projections")  # lists, and pairs of products
    expected = {name for name, _ in network.named_modules() if not name.endswith(holders)}
    assert ran == expected
