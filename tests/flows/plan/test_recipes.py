"""Recipes of variants in a study: what decides a run, what is searched, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.decisions import choose_settings, size_models
from dreamer_study.flows.plan.model_plan import check_trusted
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.job_descriptions import write_runs
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.trainings import work_left
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.training.config import LATER, without_later
from dreamer_study.pipeline.errors import InputError
from tests.flows.by_hand import ONE, Planned, evaluate, study_file, tiny, train

LION = Path(__file__).resolve().parents[2] / "model" / "architectures" / "recipe_models.py"
WSD = {"decay": 0.2, "to": 0.1}


def variant(name: str = "X", **training: Any) -> dict[str, Any]:
    return {"name": name, "family": "LA", "match": False, "training": training}


def runs_of(plan: Plan, *, trust_code: bool = False) -> dict[str, str]:
    """The runs by name, once the models are sized."""
    size_models(plan, trust_code=trust_code)
    return {run.name: run.run_id for run in plan.runs}


def of_variant(prepared: Planned, **training: Any) -> str:
    plan = prepared(models={"variants": [variant(**training)]}, evaluation={"introspect": False})
    (run_id,) = runs_of(plan).values()
    return run_id


@pytest.mark.slow
def test_a_run_is_another_by_what_its_recipe_says_and_the_same_by_what_it_implies(
    prepared: Planned,
) -> None:
    usual = of_variant(prepared)
    same = [
        {"optimizer": "adamw"},
        {"betas": [0.9, 0.999]},
        {"momentum": 0.95},
        {"clip": 0.5},
        {"schedule": "constant"},
    ]
    for recipe in same:
        assert of_variant(prepared, **recipe) == usual, recipe
    others = [
        {"optimizer": "muon"},
        {"optimizer": "muon", "momentum": 0.9},
        {"clip": None},
        {"betas": [0.9, 0.95]},
        {"weight_decay": 0.1},
        {"schedule": "linear"},
        {"schedule": WSD},
        {"schedule": {**WSD, "shape": "cosine"}},
        {"schedule": {"decay": 0.2}},
    ]
    keys = {of_variant(prepared, **recipe) for recipe in others}
    assert len({usual, *keys}) == 1 + len(others)
    spelled_out = {"schedule": {"decay": 0.2, "to": 0.0, "shape": "linear"}}
    assert of_variant(prepared, **spelled_out) == of_variant(prepared, schedule={"decay": 0.2})


@pytest.mark.slow
def test_settings_that_came_later_are_in_nothing_that_decides_a_run_of_before(
    prepared: Planned,
) -> None:
    plan = prepared(**ONE)
    for run in plan.runs:
        assert not LATER.keys() & run.content["training"].keys()
    assert without_later({"optimizer": "adamw", "clip": None}) == {"clip": None}
    spelled_out = prepared(training={"optimizer": "adamw", "momentum": 0.95}, **ONE)
    assert spelled_out.study.study_id == plan.study.study_id


@pytest.mark.slow
def test_no_clip_for_all_is_no_clip_of_each(prepared: Planned) -> None:
    (run,) = prepared(training={"clip": None}, **ONE).runs
    (usual,) = prepared(**ONE).runs
    assert run.content["training"]["clip"] is None
    assert run.run_id != usual.run_id


@pytest.mark.slow
def test_the_tokens_over_which_a_rate_falls_are_part_of_the_run(prepared: Planned) -> None:
    lengths = (24_000, 48_000)
    falls, stays = (
        [
            runs_of(prepared(training={"tokens": tokens, "schedule": schedule}, **ONE))
            for tokens in lengths
        ]
        for schedule in (WSD, "constant")
    )
    assert stays[0] == stays[1]
    assert falls[0] != falls[1]
    for tokens in lengths:
        plan = prepared(training={"tokens": tokens, "schedule": WSD}, **ONE)
        write_runs(plan)  # neither is refused for the other
        described = json.loads((plan.runs[0].folder / "run.json").read_text())["training"]
        assert described["tokens"] == tokens
        assert described["schedule"] == {**WSD, "shape": "linear"}


@pytest.mark.slow
def test_muon_is_sized_once_and_its_share_is_known(prepared: Planned, tmp_path: Path) -> None:
    models = {"variants": ["LA", variant("Muon", optimizer="muon")]}
    plan = prepared(models=models)
    assert plan.unsized is not None
    size_models(plan, trust_code=False)
    plain, muon = plan.models
    assert plain.muon_share is None
    assert 0.5 < muon.muon_share < 0.7
    assert (plain.parameters, plain.config) == (muon.parameters, muon.config)
    again = Plan(plan.study)
    assert again.unsized is None
    assert again.models == plan.models


def test_dreamer_plan_prints_the_share_of_the_parameters_under_muon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {"variants": ["LA", variant("Muon", optimizer="muon")]}
    for listed, has_share in ((models, True), ({"variants": ["LA"]}, False)):
        file = study_file(tmp_path, models=listed)
        assert main(["plan", str(file), "--root", str(tmp_path / "run")]) == 0
        table = capsys.readouterr().out.split("\n\n")[1]
        assert ("by Muon" in table) == has_share
        assert ("55%" in table or "56%" in table) == has_share


# --- an optimizer of your own


def own(place: Path, **changes: Any) -> Any:
    """A study beside a file of optimizers."""
    shutil.copyfile(LION, place / "lion.py")
    recipe = {"optimizer": "lion.py:Lion", "optimizer_config": {"betas": [0.9, 0.98]}}
    models = {"variants": ["LA", variant("Lion", **recipe)]}
    return study_file(place, models=models, **changes)


@pytest.mark.slow
def test_an_own_optimizer_is_trusted_copied_and_part_of_the_run(
    tmp_path: Path, tiny_store: Path
) -> None:
    root = tmp_path / "run"
    shutil.copytree(tiny_store, root / "store")
    study = load_study(own(tmp_path), root=root)
    with pytest.raises(InputError, match=r"Lion is trained by Python in lion\.py, .*--trust-code"):
        check_trusted(study, trust_code=False)
    check_trusted(study, trust_code=True)
    plan = Plan(study)
    study_id = study.study_id
    first = runs_of(plan, trust_code=True)
    write_runs(plan)
    run = next(run for run in plan.runs if run.model.variant == "Lion")
    assert (run.folder / "code" / "lion.py").read_bytes() == LION.read_bytes()
    digests = run.content["training"]["optimizer_files"]
    assert [*digests] == ["lion.py"]
    with (tmp_path / "lion.py").open("a") as file:
        file.write("\n# another\n")
    changed = load_study(tmp_path / "study.yaml", root=root)
    assert changed.study_id != study_id
    second = runs_of(Plan(changed), trust_code=True)
    assert second["LA seed 0"] == first["LA seed 0"]
    assert second["Lion seed 0"] != first["Lion seed 0"]


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({"optimizer": "moun"}, "it must be adamw, muon, .*did you mean 'muon'"),
        ({"optimiser": "muon"}, "unknown key 'optimiser'; did you mean 'optimizer'"),
        ({"betas": [-0.1, 0.9]}, "beta1 is -0.1, but it must be greater than or equal to 0"),
        ({"betas": 0.9}, "betas is 0.9, but it must be two numbers"),
        ({"betas": [0.9, 0.9], "beta2": 0.9}, "betas and beta2 set the same thing"),
        ({"schedule": {"decay": 1.2}}, "schedule.decay is 1.2, but it must be less than or equal"),
        ({"schedule": {"decay": 0}}, "schedule.decay is 0.0, but it must be greater than 0"),
        ({"schedule": {"decay": 0.2, "to": 1}}, "schedule.to is 1.0, but it must be less than 1"),
        ({"schedule": {"to": 0.1}}, "schedule.decay is missing"),
        ({"schedule": {"decay": 0.2, "shape": "cosin"}}, "schedule.shape is 'cosin', but it must"),
        ({"schedule": {"dekay": 0.2}}, "unknown key 'dekay'; did you mean 'decay'"),
        ({"schedule": "wsd"}, r"schedule is 'wsd', but it must be constant, .*\{decay: 0.2"),
        ({"clip": -1}, "clip is -1, but it must be greater than 0"),
        ({"momentum": 1}, "momentum is 1, but it must be less than 1"),
        ({"optimizer_config": {"betas": 1}}, "arguments for your own class"),
        ({"optimizer_files": {}}, "unknown key 'optimizer_files'"),
    ],
)
def test_a_wrong_recipe_is_one_line(tmp_path: Path, training: dict[str, Any], said: str) -> None:
    for changes in ({"training": training}, {"models": {"variants": [variant(**training)]}}):
        with pytest.raises(InputError, match=said) as error:
            tiny(tmp_path, **changes)
        assert "\n" not in str(error.value)


@pytest.mark.slow
def test_muon_on_a_class_without_matrices_is_refused_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copyfile(LION, tmp_path / "words.py")
    words = {"name": "Words", "module": "words.py:OnlyWords", "training": {"optimizer": "muon"}}
    file = study_file(tmp_path, models={"variants": ["LA", words]})
    arguments = ["plan", str(file), "--root", str(tmp_path / "run"), "--trust-code"]
    assert main(arguments) == 2
    said = capsys.readouterr().err.strip()
    assert "words.py:OnlyWords: optimizer is muon, but the class has no matrix" in said
    assert "\n" not in said


# --- the search


TUNE = {
    "learning_rate": [1e-3, 2e-3, 4e-3],
    "weight_decay": [0.01, 0.1],
    "decay": [0.2, 0.5],
    "seeds": [900],
    "tokens": 6000,
}
OWN = variant("own", learning_rate=7e-4, weight_decay=0.3)
SLOW = {**variant("slow"), "training": {"learning_rate": {"times": 0.25, "of": "LA"}}}


def best_at(rate: float, weight_decay: float, decay: float):
    """Losses that are lowest at some settings."""

    def loss(run: dict[str, Any]) -> float:
        training = run["training"]
        away = [
            training["learning_rate"] / rate,
            training["weight_decay"] / weight_decay,
            training["schedule"]["decay"] / decay,
        ]
        return 1 + sum(abs(1 - ratio) for ratio in away)

    return loss


def search(plan: Plan, losses: Any) -> list[str]:
    """Hold the whole search by hand; return the names of its runs."""
    names = []
    while True:
        search_now = plan.tuning_runs
        choose_settings(plan, search_now)
        if not plan.tuning_runs:
            return names
        write_runs(plan)
        for run in search_now:
            if not run.done:
                names.append(run.name)
                train(run)
        for name, describe in work_left(plan, Options(), ()):
            assert name.startswith("evaluate ")
            evaluate(Path(describe().arguments[0]), losses)


def tuned(prepared: Planned, tmp_path: Path, tune: dict[str, Any] = TUNE) -> Plan:
    training = {"tune": tune, "schedule": WSD}
    models = {"variants": ["LA", OWN, SLOW]}
    plan = prepared(training=training, models=models, evaluation={"introspect": False})
    prepare_data(plan, Steps())  # with documents to tune on
    return plan


@pytest.mark.slow
def test_all_combinations_are_tried_then_neighbours_of_the_best_and_each_run_has_what_was_chosen(
    prepared: Planned, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tuned(prepared, tmp_path)
    first = [run.name for run in plan.tuning_runs]
    assert len(first) == 3 * 2 * 2 + 2, "of own the decay alone is searched"
    assert "LA seed 900 rate 0.001, weight decay 0.01, decay 0.2" in first
    assert "own seed 900 decay 0.5" in first
    names = search(plan, best_at(2e-3, 0.1, 0.5))
    assert names[: len(first)] == first
    # weight decay 1 and decay 1 lie beyond the values of LA that were best, decay 1 beyond own's
    assert sorted(names[len(first) :]) == [
        "LA seed 900 rate 0.002, weight decay 0.1, decay 1",
        "LA seed 900 rate 0.002, weight decay 1, decay 0.5",
        "own seed 900 decay 1",
    ]
    chosen = {run.model.variant: run.content["training"] for run in plan.runs}
    assert chosen["LA"]["learning_rate"] == 2e-3
    assert chosen["LA"]["weight_decay"] == 0.1
    assert chosen["LA"]["schedule"] == {"decay": 0.5, "to": 0.1, "shape": "linear"}
    assert chosen["own"]["learning_rate"] == 7e-4
    assert chosen["own"]["weight_decay"] == 0.3
    assert chosen["own"]["schedule"]["decay"] == 0.5
    assert chosen["slow"]["learning_rate"] == pytest.approx(5e-4)
    assert chosen["slow"]["weight_decay"] == 0.1, "of LA, whose rate it has a share of"
    assert chosen["slow"]["schedule"]["decay"] == 0.5
    (line,) = [each for each in capsys.readouterr().err.splitlines() if each.startswith("LA: ")]
    assert line.startswith("LA: learning rate 0.002, weight decay 0.1, decay 0.5; mean losses: ")
    assert "at the edge" not in line
    rows = Plan(plan.study).search
    assert {row["tokens"] for row in rows} == {6000}
    assert sum(row["chosen"] for row in rows) == 2


@pytest.mark.slow
def test_a_weight_decay_alone_is_searched_at_the_rate_of_all(
    prepared: Planned, tmp_path: Path
) -> None:
    tune = {"weight_decay": [0.0, 0.1], "seeds": [900], "tokens": 6000}
    plan = tuned(prepared, tmp_path, tune)
    assert [run.name for run in plan.tuning_runs] == [
        "LA seed 900 weight decay 0",
        "LA seed 900 weight decay 0.1",
    ]
    assert {run.learning_rate for run in plan.tuning_runs} == {2e-3}
    search(plan, lambda run: 1 + run["training"]["weight_decay"])
    assert plan.runs[0].content["training"]["weight_decay"] == 0.0


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        (
            {},
            "there is nothing to search; give a list for one or several of learning_rate, weight_decay, decay",
        ),
        ({"decay": [0.1, 1.5]}, "tune.decay.1 is 1.5, but it must be less than or equal to 1"),
        ({"weight_decay": [-1, 0]}, "tune.weight_decay.0 is -1, but it must be greater than"),
        ({"weight_decay": [0.1]}, "tune.weight_decay is .*at least 2 items"),
        ({"weigth_decay": [0.1]}, "unknown key 'weigth_decay'; did you mean 'weight_decay'"),
        ({"decay": [0.1, 0.2]}, "tune.decay: the schedule of LA is 'constant', which has no share"),
    ],
)
def test_a_wrong_search_is_one_line(tmp_path: Path, tune: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        tiny(tmp_path, training={"tune": {"seeds": [900], "tokens": 6000, **tune}})
    assert "\n" not in str(error.value)
