"""Tables of the report: cells, results, hyperparameters."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from dreamer_study.model.config import DreamerConfig, la
from dreamer_study.reports.data import read_study
from dreamer_study.reports.style.theme import styles
from dreamer_study.reports.tables.cells import left, table
from dreamer_study.reports.tables.examples import examples
from dreamer_study.reports.tables.hyperparameters import hyperparameters
from dreamer_study.reports.tables.results import results
from tests.reports.small_results import (
    POINTS,
    STUDY,
    entered,
    evaluations,
    models_and_runs,
    whole_study,
)


def test_cells_are_aligned_as_their_heads_and_groups_are_apart() -> None:
    made = table(
        "t", "Seeds", [left("Run"), "Seed"], [(4, ["a", "0"]), (4, ["b", "1"]), (8, ["c", "0"])]
    )
    assert [
        [(cell.text, cell.kind, cell.scope) for cell in row.cells] for row in made.rows[:1]
    ] == [[("a", "left", "row"), ("0", "", "")]]
    assert [row.first for row in made.rows] == [False, False, True]


PERPLEXITIES = {"LA": 9.5, "DR": 8.25}


def test_a_task_with_an_accuracy_and_a_perplexity_has_both(tmp_path: Path) -> None:
    # DR is better by both.
    tables = models_and_runs("LA", "DR")
    for variant, right in {"LA": (4, 8), "DR": (8, 12)}.items():
        tables["evaluations"] += evaluations(variant, right, ("gsm8k",), POINTS[:2])["evaluations"]
        perplexity = {
            "run_id": variant,
            "tokens": POINTS[1],
            "task": "gsm8k",
            "metric": "word_perplexity",
        }
        tables["evaluations"].append(
            {**perplexity, "filter": "none", "value": PERPLEXITIES[variant], "items": 30}
        )
    data = read_study(entered(tmp_path / "results.duckdb", tables), STUDY)
    made = results(data.results, styles(data.variants))
    cells = {row.cells[0].text: row.cells[2:5] for row in made.rows}
    shown = {variant: [cell.text for cell in found] for variant, found in cells.items()}
    assert shown == {"LA": ["9.50", "20.0", "1.00"], "DR": ["8.25", "30.0", "≤\u202f0.50"]}
    assert [cell.kind for cell in cells["DR"][:2]] == ["best", "best"]
    assert [cell.kind for cell in cells["LA"][:2]] == ["second", "second"]


def test_equal_values_stand_once_and_others_under_their_model() -> None:
    configurations = {
        "LA": la(16),
        "DR": DreamerConfig(depth=16, recurrent=True, experts=517, expert_size=504),
    }
    models = pd.DataFrame(
        [
            {
                "study_id": "s",
                "model_id": name,
                "variant": name,
                "depth": 16,
                "config": json.dumps(one.to_dict()),
            }
            for name, one in configurations.items()
        ]
    )
    recipe = json.dumps({"learning_rate": 8e-4, "schedule": "constant"})
    runs = pd.DataFrame({"variant": "DR", "depth": 16, "seed": [1, 0], "recipe": recipe})
    training = {
        "learning_rate": 4e-4,
        "tokens": 100_000_000_000,
        "schedule": "constant",
        "seeds": [0],
    }
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


def test_an_answer_without_words_beside_answers_with_words_is_a_dash(tmp_path: Path) -> None:
    data = read_study(whole_study(tmp_path / "results.duckdb"), STUDY)
    rows = data.examples.assign(
        gold=data.examples["gold"].where(data.examples["task"] != "gsm8k"), text=float("nan")
    )
    made = examples(rows, data.usual_answers, styles(data.variants), 4, "gsm8k")
    assert {cell.text for row in made.rows for cell in row.cells[1:]} == {"–"}
