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
    made = hyperparameters(models, {"learning_rate": 4e-4, "tokens": 100_000_000_000}, styles(["LA", "DR"]))
    rows = {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in made.rows}
    assert rows["Layers"] == ["16", "1"]
    assert rows["EA: experts"] == ["32", "517"]
    assert rows["EA: intermediate size of an expert"] == ["512", "504"]
    assert rows["SA and DA: experts of the projections"] == ["–", "16"]
    assert rows["Hidden size"] == ["1,024"]
    assert rows["Learning rate"] == ["0.0004"]
    assert rows["Tokens"] == ["100B"]
    assert "DA: query heads" not in rows, "no model has depth attention"


def test_models_from_elsewhere_have_no_hyperparameters() -> None:
    models = pd.DataFrame({"variant": "LA", "depth": 16, "config": ["{}", None, "not json"]})
    assert hyperparameters(models, {}, styles(["LA"])).rows == ()
