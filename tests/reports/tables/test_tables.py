"""Tables of the report: cells, results, hyperparameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dreamer_study.model.config import DreamerConfig, la
from dreamer_study.reports.data import read_study
from dreamer_study.reports.style.theme import styles
from dreamer_study.reports.tables.cells import Cell, Table, left, table
from dreamer_study.reports.tables.examples import examples, item_key, items_in_full
from dreamer_study.reports.tables.hyperparameters import hyperparameters
from dreamer_study.reports.tables.ratios import details, ranked, ratios
from dreamer_study.reports.tables.results import benchmarks, results
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


RATIO = {
    "depth": 4,
    "variant": "DR",
    "baseline": "LA",
    "task": "average",
    "metric": "accuracy",
    "score_low": 0.46,
    "score_high": 0.53,
    "ratio": 1.672,
    "low": 1.35,
    "high": 2.08,
    "factor": 0.598,
    "at_least": 1.23,
    "reached": False,
    "significant": True,
    "p_adjusted": 0.0074,
    "depends_on": "swaps",
    "seeds": 4,
    "detectable": 1.32,
    "in_advance": False,
    "near_chance": False,
    "within_checkpoint": False,
    "before_decay": False,
    "decay_bound": None,
    "one_task": False,
    "cut_short": False,
    "comparisons": 9,
    "outdated": False,
    "variant_tokens": 8e5,
    "baseline_tokens": 4.5e5,
    "best": 0.528,
    "baseline_best": 0.747,
}
EMPTY = dict.fromkeys(("ratio", "low", "high", "factor", "score_low", "score_high", "detectable"))
UNTESTED = {"significant": None, "p_adjusted": None, "comparisons": None}
RATIOS = [
    RATIO,
    RATIO | {"variant": "X", "ratio": 0.5, "low": 0.4, "high": 0.6, "reached": True, "best": 0.75},
    RATIO | UNTESTED | {"task": "gsm8k", "depends_on": None},
    RATIO | EMPTY | UNTESTED | {"variant": "X", "task": "gsm8k", "low": 5.5, "near_chance": True},
    RATIO | EMPTY | UNTESTED | {"variant": "Y", "seeds": None, "reached": None, "at_least": None},
    RATIO | {"task": "math", "significant": False, "p_adjusted": 0.2, "within_checkpoint": True},
    RATIO | EMPTY | UNTESTED | {"task": "mathqa", "outdated": True, "at_least": None},
]


def ratio_frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows of `StudyData.ratios`."""
    return pd.DataFrame(rows).astype({"significant": "boolean", "ratio": float, "low": float})


def words(made: Table) -> list[str]:
    """The rows of a table: the texts of the cells, with their notes in brackets."""
    return [
        " | ".join(f"{cell.text} ({cell.note})" if cell.note else cell.text for cell in row.cells)
        for row in made.rows
    ]


def test_a_row_of_ratios_has_the_number_and_how_sure_it_is() -> None:
    made = ratios(ratio_frame(RATIOS), styles(["LA", "DR", "X", "Y"]), 4)
    number = "1.67x | 1.35 to 2.08 | 46 to 53 % | no, 52.8 %"
    sure = "≥\u202f1.23x | 1.32x | 4"
    assert words(made) == [
        f"DR | Average accuracy | {number} | yes, p 0.007 | {sure}",
        "X | Average accuracy | 0.50x | 0.40 to 0.60 | 46 to 53 % | yes | yes, p 0.007 | 1.23x | 1.32x | 4",
        "Y | Average accuracy | – (not evaluated) |  | – | – |  | – | – | –",
        f"DR | GSM8K | {number} |  | {sure}",
        "X | GSM8K | ≥\u202f5.50x |  | – | no, 52.8 % |  | ≥\u202f1.23x | – | 4",
        f"DR | MATH | {number} | no, < 1 checkpoint | {sure}",
        "DR | MathQA | – (not computed) |  | – | no, 52.8 % |  | – | – | 4",
    ]
    assert [row.cells[2].kind for row in made.rows] == ["strong", "strong", "", "", "", "", ""]
    assert "for 9 comparisons by" in made.caption
    with_others = [*RATIOS, RATIO | {"variant": "Z", "comparisons": 80}]
    made = ratios(ratio_frame(with_others), styles(["LA", "DR", "X", "Y", "Z"]), 4)
    assert "for 9 or 80 comparisons (models measured elsewhere apart)" in made.caption
    assert "epth" not in made.caption


def test_the_factor_of_the_paper_is_explained_once_beside_what_makes_a_ratio_weak() -> None:
    searched = {(4, "DR"): False, (4, "LA"): True}
    made = details(ratio_frame(RATIOS), styles(["LA", "DR", "X", "Y"]), 4, searched)
    assert "data efficiency" in made.caption
    said = words(made)
    weak = "depends on swaps; learning rate not searched here"
    assert said[0] == f"DR | Average accuracy | 1.67x | 0.60 | 800K | 450K | {weak}"
    assert said[4].endswith(" | near chance")
    none_searched = details(
        ratio_frame(RATIOS), styles(["LA", "DR", "X", "Y"]), 4, {(4, "DR"): False}
    )
    assert "searched" not in " ".join(words(none_searched)), "the answer says so once"


def test_many_variants_are_ranked_with_the_significant_ones_first() -> None:
    estimates = {"A": 1.5, "B": 0.5, "C": 0.9, "D": 2.0, "E": 0.7}
    rows = [RATIO | {"variant": name, "ratio": value} for name, value in estimates.items()]
    rows.append(RATIO | {"variant": "F", "ratio": 0.4, "significant": False})
    made = ranked(ratio_frame(rows), styles(["LA", *"ABCDEF"]), 4)
    assert [row.cells[0].text for row in made.rows] == ["B", "E", "C", "A", "D", "F"]
    assert [row.first for row in made.rows] == [False] * 5 + [True]
    assert [head.text for head in made.head[0]][3] == "Finding"
    assert made.rows[-1].cells[3].text == "not significant"


def test_a_best_that_is_lower_within_noise_is_said() -> None:
    made = ratios(ratio_frame([RATIO | {"reached": True, "best": 0.74}]), styles(["LA", "DR"]), 4)
    assert " | within noise, 74.0 % | " in words(made)[0]


def test_a_score_fixed_in_advance_is_what_was_to_be_reached() -> None:
    fixed = RATIO | {"in_advance": True, "score_low": 0.5, "score_high": 0.5}
    made = ratios(ratio_frame([fixed]), styles(["LA", "DR"]), 4)
    assert " | 50 % (fixed in advance) | " in words(made)[0]
    assert "Reached the score" in [head.text for head in made.head[0]]


@pytest.mark.slow
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


def test_a_form_has_its_layers_and_iterations() -> None:
    configurations = {
        "LA": la(4),
        "DR": DreamerConfig(depth=4, recurrent=True),
        "own": DreamerConfig(depth=4, recurrent=True, prelude=1),
        "pool": DreamerConfig(depth=4, expert_pool=True),
    }
    configs = [json.dumps(one.to_dict()) for one in configurations.values()]
    models = pd.DataFrame({"variant": list(configurations), "depth": 4, "config": configs})
    runs = pd.DataFrame({"variant": ["LA"], "depth": 4, "seed": [0], "recipe": [None]})
    made = hyperparameters(models, runs, {}, styles(list(configurations)))
    rows = {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in made.rows}
    assert rows["Layers"] == ["4", "1", "2", "4"]
    assert rows["Iterations of a layer"] == ["1", "4", "3", "1"]
    assert rows["Layers before the iterated one"] == ["–", "–", "1", "–"]
    assert "Layers after the iterated one" not in rows, "no model has such"
    assert rows["EA: one pool of experts for all layers"] == ["–", "–", "–", "yes"]
    assert rows["SA and DA: experts of the projections"] == ["–", "4", "3", "–"]


def test_each_model_has_its_own_optimizer_and_schedule() -> None:
    config = json.dumps(la(16).to_dict())
    models = pd.DataFrame({"variant": ["LA", "Muon"], "depth": 16, "config": config})
    decays = {"decay": 0.2, "to": 0.1, "shape": "linear"}
    of_muon = {"learning_rate": 1e-3, "optimizer": "muon", "schedule": decays, "clip": None}
    recipes = [json.dumps({"learning_rate": 1e-3, "clip": 0.5}), json.dumps(of_muon)]
    runs = pd.DataFrame({"variant": ["LA", "Muon"], "depth": 16, "seed": 0, "recipe": recipes})
    of_study = {"optimizer": "muon", "schedule": "constant", "momentum": 0.9}
    made = hyperparameters(models, runs, of_study, styles(["LA", "Muon"]))
    rows = {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in made.rows}
    assert rows["Optimizer"] == ["adamw", "muon"], "a recipe that names none is AdamW's"
    assert rows["Muon: momentum"] == ["–", "0.95"]
    assert rows["Learning rate after warm-up"] == [
        "constant",
        "falls to 0.1 in the last 0.2 (linear)",
    ]
    assert rows["Largest gradient norm"] == ["0.5", "none"]


def test_models_from_elsewhere_have_no_hyperparameters() -> None:
    models = pd.DataFrame({"variant": "LA", "depth": 16, "config": ["{}", None, "not json"]})
    runs = pd.DataFrame({"variant": ["LA"], "depth": 16, "seed": None, "recipe": None})
    assert hyperparameters(models, runs, {}, styles(["LA"])).rows == ()


@pytest.mark.slow
def test_an_answer_without_words_beside_answers_with_words_is_a_dash(tmp_path: Path) -> None:
    data = read_study(whole_study(tmp_path / "results.duckdb"), STUDY)
    rows = data.examples.assign(
        gold=data.examples["gold"].where(data.examples["task"] != "gsm8k"), text=float("nan")
    )
    made = examples(rows, data.usual_answers, styles(data.variants), 4, "gsm8k")
    assert {cell.text for row in made.rows for cell in row.cells[1:]} == {"–"}


def test_columns_that_no_row_has_anything_in_go() -> None:
    rows = [(None, ["a", "", "1", Cell("–", note="not computed")]), (None, ["b", "–", "–", "–"])]
    made = table("t", "Caption", ["Name", "Nothing", "Number", "Note"], rows)
    assert [cell.text for cell in made.head[0]] == ["Name", "Number", "Note"]
    assert [[cell.text for cell in row.cells] for row in made.rows] == [
        ["a", "1", "–"],
        ["b", "–", "–"],
    ]


def test_a_benchmark_has_its_sentence_once() -> None:
    row = {"task": "a", "metric": "acc", "filter": "none", "items": 3.0, "chance": 0.1}
    scores = pd.DataFrame([row])
    versions = pd.DataFrame([{"task": "a", "task_version": "1"}])
    made = benchmarks(scores, scores, scores.iloc[:0], versions, {"a": "Sums in words."})
    asked = [row.cells[1].text for row in made.rows]
    assert asked == ["Sums in words.", ""]


def test_one_question_has_the_answers_of_all_models_and_the_way_to_them() -> None:
    item = {"depth": 4, "task": "a", "item_id": "a/7", "question": "1 + 1?", "gold": "2"}
    answers = [
        {**item, "variant": "DR", "text": "2", "share_right": 1.0, "seeds": 2.0},
        {**item, "variant": "LA", "text": None, "share_right": 0.5, "seeds": 2.0},
    ]
    place = {"depth": 4, "task": "a", "item_id": "a/7", "variant": "LA", "seeds": 2.0}
    way = [{**place, "tokens": 10.0, "right": 0.0}, {**place, "tokens": 20.0, "right": 1.0}]
    looks = styles(["LA", "DR"])
    (key,) = made = items_in_full(pd.DataFrame(answers), pd.DataFrame(way), looks)
    assert key == "4:a/7"
    assert (made[key]["question"], made[key]["gold"]) == ("1 + 1?", "2")
    first, second = made[key]["answers"]
    assert first == {
        "variant": "LA",
        "text": "–",
        "right": 1.0,
        "seeds": 2,
        "way": [[10.0, 0.0, 2], [20.0, 1.0, 2]],
    }
    assert (second["variant"], second["way"]) == ("DR", [])


def test_a_question_of_an_id_without_its_benchmark_is_named_with_it() -> None:
    assert item_key({"depth": 4, "task": "a", "item_id": "7"}) == "4:a/7"
