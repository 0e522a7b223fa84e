"""The paper's Table 3 for the models of a study."""

from __future__ import annotations

import json

import pandas as pd

from model.config import DreamerConfig, la
from reports.style.theme import styles
from reports.tables.hyperparameters import hyperparameters


def test_equal_values_stand_once_and_others_under_their_model() -> None:
    configurations = {"LA": la(16), "DR": DreamerConfig(depth=16, recurrent=True, experts=517, expert_size=504)}
    models = pd.DataFrame(
        [
            {"study_id": "s", "model_id": name, "variant": name, "depth": 16, "config": json.dumps(one.to_dict())}
            for name, one in configurations.items()
        ]
    )
    recipe = json.dumps({"learning_rate": 8e-4, "schedule": "constant"})
    runs = pd.DataFrame({"variant": "DR", "depth": 16, "seed": [1, 0], "recipe": recipe})
    training = {"learning_rate": 4e-4, "tokens": 100_000_000_000, "schedule": "constant", "seeds": [0]}
    made = hyperparameters(models, runs, training, styles(["LA", "DR"]))
    rows = {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in made.rows}
    assert rows["Layers"] == ["16", "1"]
    assert rows["EA: experts"] == ["32", "517"]
    assert rows["EA: intermediate size of an expert"] == ["512", "504"]
    assert rows["SA and DA: experts of the projections"] == ["–", "16"]
    assert rows["Hidden size"] == ["1,024"]
    assert rows["Learning rate"] == ["0.0004", "0.0008"], "what DR was trained with"
    assert rows["Learning rate after warm-up"] == ["constant"]
    assert rows["Seeds"] == ["0", "0, 1"]
    assert rows["Tokens"] == ["100B"]
    assert "DA: query heads" not in rows, "no model has depth attention"


def test_models_from_elsewhere_have_no_hyperparameters() -> None:
    models = pd.DataFrame({"variant": "LA", "depth": 16, "config": ["{}", None, "not json"]})
    runs = pd.DataFrame({"variant": ["LA"], "depth": 16, "seed": None, "recipe": None})
    assert hyperparameters(models, runs, {}, styles(["LA"])).rows == ()
