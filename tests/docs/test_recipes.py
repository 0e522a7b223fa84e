"""docs/recipes.md: its study as it stands gives the same tables after two kills, each model at its
own rate and weight decay; its class is trained as it says."""

from __future__ import annotations

import itertools
import os
import re
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml

from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.model.training.check_recipe import check_recipe
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.parameter_groups import trained_parameters
from dreamer_study.sql.results import query
from tests.faults.processes import start
from tests.flows.test_whole_study import same_tables
from tests.waiting import PATIENCE_SECONDS, until

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "recipes.md").read_text(encoding="utf-8")
MODELS = (DOCS / "own-architecture.md").read_text(encoding="utf-8")


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)


def write(folder: Path) -> Path:
    """Write the page's study, and the models beside it."""
    (folder / "my_models.py").write_text(blocks(MODELS, "python")[0])
    values: dict[str, Any] = yaml.safe_load(blocks(PAGE, "yaml")[0])
    values["training"] |= {"tokens": 12_000, "checkpoints": 2, "seeds": [0, 1]}
    values["training"]["tune"]["tokens"] = 3000
    values["evaluation"]["limit"] = 5
    values["workers"] = 2
    path = folder / "recipes.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.mark.slow
def test_the_page_gives_the_same_tables_after_two_kills(tmp_path: Path) -> None:
    path, log = write(tmp_path), tmp_path / "log"
    options = ("--plain", "--trust-code")
    runs = tmp_path / "killed/store/runs"
    # one amid the search, one amid the trainings of what it has chosen
    for progress in ("*-s900-*/checkpoints/*", "LA-Muon-2-s0-*/state/*"):
        killed = start(path, tmp_path / "killed", log, *options)
        until(lambda wanted=progress: list(runs.glob(wanted)), killed)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    for name in ("killed", "calm"):
        ended = start(path, tmp_path / name, log, *options).wait(PATIENCE_SECONDS)
        assert ended == 0, log.read_text()
    same_tables(tmp_path / "calm", tmp_path / "killed")
    database = tmp_path / "calm/results.duckdb"
    tried = query(database, "from tuning_settings order by all")
    again = query(tmp_path / "killed/results.duckdb", "from tuning_settings order by all")
    pd.testing.assert_frame_equal(tried, again)
    assert_each_at_its_best(tried, query(database, "from runs join models using (model_id)"))
    rows = query(database, "from token_ratios")
    assert {"LA-Muon", "GPT", "Llama"} <= set(rows["variant"])
    of_gpt = rows[rows["variant"] == "GPT"]
    assert (of_gpt["decay_bound"].notna() | of_gpt["before_decay"] | of_gpt["ratio"].isna()).all()


def assert_each_at_its_best(tried: pd.DataFrame, runs: pd.DataFrame) -> None:
    """Check that every model tried the page's settings, and was trained at its lowest loss."""
    settings = ["learning_rate", "weight_decay"]
    of_page = {*itertools.product((0.001, 0.002), (0.01, 0.1))}
    by_model = dict(iter(tried.groupby("variant")))
    assert {*by_model} == {"LA", "LA-Muon", "GPT", "Llama"}
    for name, rows in by_model.items():
        assert {*map(tuple, rows[settings].values)} >= of_page
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
