"""docs/own-architecture.md: both files as they stand give factors; with another baseline, others
too."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.model_plan import plan_models, size
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.checkpoints.models import load_model
from dreamer_study.sql.results import query

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "own-architecture.md").read_text(
    encoding="utf-8"
)
LLAMA = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
OTHERS = [
    "LA",
    {
        "name": "Llama",
        "transformers": "llama",
        "config": LLAMA,
        "match": {"flops": "intermediate_size"},
    },
    {
        "name": "Mamba",
        "transformers": "mamba",
        "config": {"hidden_size": 32, "num_hidden_layers": 2},
    },
]


def write(folder: Path, name: str = "gpt", **models: Any) -> Path:
    """Write the page's two files, with other values under `models`."""
    ((code,), (study,)) = (
        re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("python", "yaml")
    )
    (folder / "my_models.py").write_text(code)
    values = yaml.safe_load(study)
    path = folder / f"{name}.yaml"
    if models:  # a smaller study than the page's
        values["models"] |= models
        values["training"] |= {"tokens": 6000, "checkpoints": 2, "seeds": [0]}
        values["evaluation"]["limit"] = 5
        values["workers"] = 1  # each further process imports torch anew
        study = yaml.safe_dump(values)
    path.write_text(study)
    return path


@pytest.mark.slow
def test_costs_of_the_page_are_those_of_a_count_by_hand_and_matched(tmp_path: Path) -> None:
    study = load_study(write(tmp_path))
    la, gpt, lstm = plan_models(study, 512, lambda sizing: size(sizing, tmp_path, trust_code=True))
    hidden, feed_forward = 32, gpt.config.config["feed_forward"]
    products = 2 * (4 * hidden**2 + 2 * hidden * feed_forward + 2 * hidden * 64.5) + hidden * 512
    assert gpt.flops_per_token == pytest.approx(2 * products, rel=1e-3)
    assert gpt.flops_per_token == pytest.approx(la.flops_per_token, rel=0.01)
    assert lstm.flops_per_token == pytest.approx(2 * (8 * hidden**2 + hidden * 512), rel=1e-3)
    assert (lstm.remarks, lstm.reads_documents) == ((), False)


def test_the_preset_that_checks_the_instrument_has_the_models_of_the_page(tmp_path: Path) -> None:
    write(tmp_path)
    preset = resources.files("dreamer_study.flows.study.presets") / "my_models.py"
    assert preset.read_text().partition('"""\n\n')[2] == (tmp_path / "my_models.py").read_text()


def test_untrusted_code_is_refused_and_never_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    (tmp_path / "my_models.py").write_text("raise SystemExit('it ran')\n")
    for command in ("run", "plan"):
        assert main([command, str(path)]) == 2
        assert "GPT is Python in my_models.py" in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_gives_factors_a_report_and_models_that_load(tmp_path: Path) -> None:
    path, root = write(tmp_path), tmp_path / "run"
    assert main(["run", str(path), "--root", str(root), "--plain", "--trust-code"]) == 0
    factors = query(root / "results.duckdb", "from mean_factors where task = 'average'")
    assert {"GPT", "LSTM"} <= set(factors["variant"])
    assert (root / "report" / "index.html").exists()
    (checkpoint, *_) = root.glob("store/runs/GPT-2-*/checkpoints/*")
    model = load_model(checkpoint, trust_code=True)
    assert model(torch.zeros(1, 3, dtype=int)).shape[:2] == (1, 3)


@pytest.mark.slow
def test_another_variant_can_be_the_baseline(tmp_path: Path) -> None:
    path, root = write(tmp_path, "other", baseline="Llama", variants=OTHERS), tmp_path / "run"
    command = ["run", str(path), "--root", str(root), "--plain", "--until", "evaluate"]
    assert main([*command, "--trust-code"]) == 0
    factors = query(
        root / "results.duckdb", "select distinct variant, baseline from mean_factors_against(null)"
    )
    assert set(factors["baseline"]) == {"Llama"}
    assert set(factors["variant"]) == {"LA", "Llama", "Mamba"}
