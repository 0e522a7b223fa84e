"""docs/recipes.md: its study as it stands trains each model at its own rate and weight decay; its
class is trained as it says."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.model.training.check_recipe import check_recipe
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.parameter_groups import trained_parameters
from dreamer_study.sql.results import query

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "recipes.md").read_text(encoding="utf-8")
MODELS = (DOCS / "own-architecture.md").read_text(encoding="utf-8")
# Around the best of so few tokens, and far apart: the search of a model ends after a round or two.
RATES = [0.01, 0.04]
DECAYS = [0.0, 1.0]


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)


def write(folder: Path) -> Path:
    """Write the page's study, with fewer tokens, and the models beside it."""
    (folder / "my_models.py").write_text(blocks(MODELS, "python")[0])
    values: dict[str, Any] = yaml.safe_load(blocks(PAGE, "yaml")[0])
    values["training"] |= {"tokens": 12_000, "checkpoints": 2, "seeds": [0]}
    grid = {"learning_rate": RATES, "weight_decay": DECAYS}
    values["training"]["tune"] |= {**grid, "tokens": 3000}
    values["evaluation"]["limit"] = 5
    values["workers"] = 1  # each further process imports torch anew
    path = folder / "recipes.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.mark.slow
def test_the_page_trains_each_model_at_its_best_and_has_ratios(tmp_path: Path) -> None:
    command = ["run", str(write(tmp_path)), "--root", str(tmp_path / "run")]
    assert main([*command, "--plain", "--trust-code", "--until", "evaluate"]) == 0
    database = tmp_path / "run/results.duckdb"
    tried = query(database, "from tuning_settings order by all")
    assert_each_at_its_best(tried, query(database, "from runs join models using (model_id)"))
    rows = query(database, "from token_ratios")
    assert {"LA-Muon", "GPT", "Llama"} <= set(rows["variant"])
    of_gpt = rows[rows["variant"] == "GPT"]
    assert (of_gpt["decay_bound"].notna() | of_gpt["before_decay"] | of_gpt["ratio"].isna()).all()


def assert_each_at_its_best(tried: pd.DataFrame, runs: pd.DataFrame) -> None:
    """Check that every model tried the study's settings, and was trained at its lowest loss."""
    settings = ["learning_rate", "weight_decay"]
    given = {*itertools.product(RATES, DECAYS)}
    by_model = dict(iter(tried.groupby("variant")))
    assert {*by_model} == {"LA", "LA-Muon", "GPT", "Llama"}
    for name, rows in by_model.items():
        assert {*map(tuple, rows[settings].values)} >= given
        best = rows.loc[rows["loss"].idxmin()]
        assert rows[rows["chosen"]][settings].values.tolist() == [best[settings].tolist()]
        trained = runs[runs["variant"] == name]
        assert set(trained["learning_rate"]) == {best["learning_rate"]}


def test_the_class_of_the_page_is_trained_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "mixed.py").write_text(blocks(PAGE, "python")[0])
    config = ModuleConfig(
        module="mixed.py:Mixed",
        files=digests(tmp_path, ["mixed.py"]),
        vocabulary_size=40,
        sequence_length=16,
    )
    checked = check_recipe(config, {"optimizer": "muon"}, code=tmp_path, trust_code=True)
    assert checked.remarks == ()
    torch.manual_seed(0)
    model = build(config, code=tmp_path, trust_code=True)
    recipe = TrainingConfig(tokens=1, batch_tokens=1, optimizer="muon", weight_decay=0.1)
    trained = {each.name: each for each in trained_parameters(model, recipe)}
    by_muon = {name for name, each in trained.items() if each.rule == "muon"}
    assert by_muon == {"module.qkv.weight", "module.router.weight", "module.experts"}
    assert trained["module.qkv.weight"].parts == (32, 32, 32)
    assert trained["module.head.weight"].times == 0.5
    assert trained["module.router.weight"].weight_decay == 0.0


def test_the_schedule_of_the_page_is_one(tmp_path: Path) -> None:
    path = write(tmp_path)
    study = load_study(path)
    assert study.variant("GPT").training["schedule"]["shape"] == "linear"
    (alone,) = blocks(PAGE, "yaml")[1:]
    TrainingConfig(tokens=1, batch_tokens=1, **yaml.safe_load(alone))
