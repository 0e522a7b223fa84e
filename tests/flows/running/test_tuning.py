"""The search for learning rates: the same for every variant, on documents of its own, and made
once."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.states import read_states
from dreamer_study.flows.jobs import Failed
from dreamer_study.flows.plan.decisions import choose_settings
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.job_descriptions import write_runs
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import run_study
from dreamer_study.flows.running.trainings import work_left
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import query
from tests.flows.by_hand import ONE, JobsByHand, Planned, evaluate, study_file, tiny, train

pytestmark = pytest.mark.usefixtures("light_reports")
GRID = [1e-3, 2e-3, 4e-3]
TUNE = {"learning_rate": GRID, "seeds": [900, 901], "tokens": 6000}
TRAINING = {"tune": TUNE, "seeds": [0]}
SLOW = {"name": "slow", "family": "LA", "training": {"learning_rate": {"times": 0.25, "of": "LA"}}}
OWN = {
    "name": "own",
    "family": "DR",
    "training": {"learning_rate": 7e-4, "weight_decay": 0.1},
    "seeds": [5, 6],
}
MODELS = {"variants": ["LA", "DR", SLOW, OWN]}


@pytest.fixture(scope="module")
def with_split(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the tiny study with a tuning split; not to be changed."""
    root = tmp_path_factory.mktemp("split")
    shutil.copytree(tiny_store, root / "store")
    prepare_data(Plan(tiny(root, training=TRAINING)), Steps())
    return root / "store"


@pytest.fixture
def planned(with_split: Path, tmp_path: Path) -> Planned:
    """A function that plans a changed tiny study that searches, with its data, in a folder of this
    test."""
    shutil.copytree(with_split, tmp_path / "run/store")
    return lambda **changes: Plan(tiny(tmp_path / "run", **changes))


def bowl(**best: float) -> Callable[[dict[str, Any]], float]:
    """Losses that are lowest at a rate of each variant, and differ by seed."""

    def loss(run: dict[str, Any]) -> float:
        rate = run["training"]["learning_rate"]
        return 1 + abs(math.log(rate / best[run["variant"]])) + run["seed"] / 1e5

    return loss


def run(plan: Plan, jobs: JobsByHand, **options: Any) -> None:
    run_study(plan, jobs, Steps(), Options(**{"until": "evaluate", **options}))


def searched(plan: Plan) -> dict[str, list[float]]:
    """The rates that were tried, by variant."""
    rows = query(
        plan.study.database, "from tuning where seed = 900 order by variant, learning_rate"
    )
    return {variant: list(part["learning_rate"]) for variant, part in rows.groupby("variant")}


def chosen(plan: Plan) -> dict[str, float]:
    rows = query(
        plan.study.database, "select distinct variant, learning_rate from tuning where chosen"
    )
    return dict(rows.itertuples(index=False))


def trained(jobs: JobsByHand) -> list[str]:
    return [job.name for job in jobs.submitted if job.kind == "training"]


@pytest.mark.slow
def test_every_variant_without_a_rate_of_its_own_is_searched_alike_and_trained_at_what_was_chosen(
    planned: Planned,
) -> None:
    plan, jobs = (
        planned(models=MODELS, training=TRAINING),
        JobsByHand(tuning=bowl(LA=2e-3, DR=2e-3)),
    )
    assert not plan.runs
    run(plan, jobs)
    searches = [name for name in trained(jobs) if name.startswith("tune ")]
    wanted = [
        f"tune {model} seed {seed} rate {rate:g}"
        for model in ("LA", "DR")
        for rate in GRID
        for seed in (900, 901)
    ]
    assert sorted(searches) == sorted(wanted)
    assert trained(jobs)[: len(searches)] == searches, (
        "nothing else is trained before the rates are chosen"
    )
    rows = query(plan.study.database, "from tuning")
    assert set(rows["tokens"]) == {6000}
    assert rows.groupby("variant").size().tolist() == [6, 6]
    assert chosen(plan) == {"LA": 2e-3, "DR": 2e-3}
    found = query(
        plan.study.database, "select distinct model_id, learning_rate from runs order by all"
    )
    assert dict(found.itertuples(index=False)) == {
        "DR-2": 2e-3,
        "LA-2": 2e-3,
        "own-2": 7e-4,
        "slow-2": 5e-4,
    }
    described = [json.loads((one.folder / "run.json").read_text())["training"] for one in plan.runs]
    assert [one["learning_rate"] for one in described] == [2e-3, 2e-3, 5e-4, 7e-4, 7e-4]
    assert [one["weight_decay"] for one in described] == [1e-3, 1e-3, 1e-3, 0.1, 0.1]
    assert [one.seed for one in plan.runs] == [0, 0, 0, 5, 6]


@pytest.mark.slow
def test_the_search_is_measured_on_documents_of_its_own_and_in_no_other_table(
    planned: Planned,
) -> None:
    plan = planned(training=TRAINING, **ONE)
    train(plan.tuning_runs[0])
    describe = dict(work_left(plan, Options(), ()))[
        "evaluate LA seed 900 rate 0.001 at 6,007 tokens"
    ]
    asked = json.loads(Path(describe().arguments[0]).read_text())
    run(plan, JobsByHand(tuning=bowl(LA=2e-3)))
    assert plan.data.packed.results["tuning"] > 0
    assert [task["benchmark"] for task in asked["tasks"]] == ["tuning"]
    assert {name for one in asked["checkpoints"] for name in one["outputs"]} == {"tuning"}
    for table in ("runs", "steps", "checkpoints", "evaluations", "internal.claims"):
        assert set(query(plan.study.database, f"from {table}")["run_id"]) == {
            one.run_id for one in plan.runs
        }, table


@pytest.mark.slow
def test_a_second_start_searches_nothing_also_after_the_search_was_cleaned_away(
    planned: Planned,
) -> None:
    plan = planned(training=TRAINING, **ONE)
    run(plan, JobsByHand(tuning=bowl(LA=2e-3)))
    used = set(plan.names())
    searched = {path.name for path in (plan.store.root / "runs").iterdir()} - {
        one.run_id for one in plan.runs
    }
    assert len(searched) == 6
    assert not used & {f"runs/{name}" for name in searched}, "dreamer clean removes them"
    assert f"decisions/{plan.rates_decision.stem}" in used
    for name in searched:
        (plan.store.root / "runs" / name / "run.json").unlink()
    longer = {**TRAINING, "seeds": [0, 1], "tokens": 48_000, "checkpoint_every": 6000}
    jobs = JobsByHand()
    run(Plan(tiny(plan.study.folder, training=longer, **ONE)), jobs)
    assert trained(jobs) == ["train LA seed 0", "train LA seed 1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("best", "tried", "rates"),
    [
        ({"LA": 2e-3, "DR": 7e-3}, (GRID, [*GRID, 8e-3, 16e-3]), (2e-3, 8e-3)),
        (
            {"LA": 3e-4, "DR": 1e9},
            ([1.25e-4, 2.5e-4, 5e-4, *GRID], [*GRID, 8e-3, 16e-3, 32e-3, 64e-3]),
            (2.5e-4, 64e-3),
        ),
    ],
)
def test_the_search_of_a_model_goes_on_at_an_edge_until_its_best_lies_inside_or_for_four_rounds(
    planned: Planned,
    capsys: pytest.CaptureFixture[str],
    best: dict[str, float],
    tried: tuple[list[float], list[float]],
    rates: tuple[float, float],
) -> None:
    plan = planned(
        models={"variants": ["LA", "DR"]}, training=TRAINING, evaluation={"introspect": False}
    )
    run(plan, JobsByHand(tuning=bowl(**best)))
    assert searched(plan) == {"LA": pytest.approx(tried[0]), "DR": pytest.approx(tried[1])}
    assert chosen(plan) == {"LA": pytest.approx(rates[0]), "DR": pytest.approx(rates[1])}
    said = capsys.readouterr().err
    for model, rate, of_model in zip(("LA", "DR"), rates, tried, strict=True):
        (line,) = [
            line
            for line in said.splitlines()
            if line.startswith(f"{model}: learning rate {rate:g}; ")
        ]
        is_at_edge = rate == pytest.approx(of_model[-1])
        assert ("at the edge" in line) == is_at_edge


@pytest.mark.slow
def test_nothing_is_chosen_from_a_grid_that_has_grown_since_it_was_looked_at(
    planned: Planned,
) -> None:
    plan = planned(training=TRAINING, **ONE)
    grid = plan.tuning_runs
    write_runs(plan)
    for one in grid:
        train(one)
    for name, describe in work_left(plan, Options(), ()):
        assert name.startswith("evaluate ")
        evaluate(Path(describe().arguments[0]), bowl(LA=9e-3))
    choose_settings(plan, grid)
    assert not plan.search
    assert len(plan.tuning_runs) == 8
    for name, describe in work_left(plan, Options(), ()):
        assert name.startswith("tune ")
        assert (describe().folder / "run.json").exists(), "the process reads this"


@pytest.mark.slow
def test_a_rate_at_which_a_training_failed_is_not_chosen_and_the_study_names_it(
    planned: Planned,
) -> None:
    plan = planned(training=TRAINING, **ONE)
    name = "tune LA seed 901 rate 0.002"
    jobs = JobsByHand({name: Failed(f"{name}: the loss is not a number")}, tuning=bowl(LA=2.1e-3))
    with pytest.raises(Failed, match=r"tune LA seed 901 rate 0\.002"):
        run(plan, jobs)
    assert chosen(plan) == {"LA": 4e-3}
    assert query(plan.study.database, "from tuning where loss is null")[
        ["learning_rate", "seed"]
    ].values.tolist() == [[0.002, 901]]
    assert plan.trained
    run(Plan(plan.study), again := JobsByHand())
    assert again.submitted == []


@pytest.mark.slow
def test_a_model_that_fails_at_every_setting_holds_up_no_other(planned: Planned) -> None:
    twice = {"learning_rate": {"times": 2, "of": "DR"}}
    models = {"variants": ["LA", "DR", {"name": "twice", "family": "DR", "training": twice}]}
    plan = planned(training=TRAINING, models=models)
    failing = {run.name for run in plan.tuning_runs if run.model.variant == "DR"}
    failures = {f"tune {name}": Failed(f"{name}: no number") for name in failing}
    jobs = JobsByHand(failures, tuning=bowl(LA=2e-3))
    with pytest.raises(Failed, match=r"and 5 more"):
        run(plan, jobs)
    assert chosen(plan) == {"LA": 2e-3}
    states = {one.model.variant: (one.done, one.failure) for one in Plan(plan.study).runs}
    assert states["LA"] == (True, "")
    for name in ("DR", "twice"):
        assert not states[name][0]
        assert "every training of the search" in states[name][1]

    again = Plan(plan.study)
    run(again, jobs := JobsByHand(tuning=bowl(DR=1.9e-3)))
    assert {name for name in trained(jobs) if name.startswith("tune ")} == set(failures)
    assert chosen(again) == {"LA": 2e-3, "DR": 2e-3}, "what failed is tried again"
    rates = {one.model.variant: one.learning_rate for one in again.runs}
    assert rates == {"LA": 2e-3, "DR": 2e-3, "twice": 4e-3}
    assert again.trained


@pytest.mark.slow
def test_a_stopped_search_goes_on_and_status_shows_it(planned: Planned) -> None:
    plan = planned(training=TRAINING, **ONE)
    train(plan.tuning_runs[0])
    states = [one for one in read_states(plan) if one.stage == "tune"]
    assert [(one.model, one.seed, one.state) for one in states][:2] == [
        ("LA rate 0.001", 900, "complete"),
        ("LA rate 0.001", 901, "waiting"),
    ]
    assert len({(one.model, one.seed) for one in states}) == len(states) == 6
    assert [one.state for one in read_states(plan) if one.stage == "train"] == ["waiting"]
    run(plan, jobs := JobsByHand(tuning=bowl(LA=2e-3)), until="train")
    assert len(trained(jobs)) == 5 + 1, "one of the search was there"
    assert not [one for one in read_states(plan) if one.stage == "tune"]


@pytest.mark.slow
def test_a_decay_knows_its_end_so_the_study_is_not_extended(prepared: Planned) -> None:
    decays = {"schedule": "linear", "checkpoint_every": 6000}
    plan = prepared(training=decays, **ONE)
    run(plan, JobsByHand(), until="train")
    for tokens in (18_000, 30_000):
        longer = Plan(tiny(plan.study.folder, training={**decays, "tokens": tokens}, **ONE))
        with pytest.raises(
            InputError, match=r"LA seed 0: its learning rate decays \(linear\) over 24,000 tokens"
        ) as error:
            run(longer, JobsByHand())
        assert "\n" not in str(error.value)
    run(plan, jobs := JobsByHand())
    assert not trained(jobs)


def test_the_plan_counts_the_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three rates and two seeds of 6,000 tokens are 36,000 for a model that is trained on
    24,000."""

    def flops(**training: Any) -> float:
        file = study_file(tmp_path, training=training, **ONE)
        assert main(["plan", str(file), "--root", str(tmp_path / "run")]) == 0
        (line,) = [
            line for line in capsys.readouterr().out.splitlines() if line.startswith("compute")
        ]
        return float(line.split()[1])

    assert flops(**TRAINING) / flops(seeds=[0]) == pytest.approx(60 / 24, rel=0.01)


@pytest.mark.slow
def test_a_study_tunes_from_its_data_to_its_report(tmp_path: Path) -> None:
    training = {"tokens": 6000, "checkpoints": 2, "tune": {**TUNE, "seeds": [900], "tokens": 2000}}
    file = study_file(
        tmp_path, models={"variants": ["LA", "DR"]}, training=training, evaluation={"limit": 5}
    )
    root = tmp_path / "run"
    assert main(["run", str(file), "--root", str(root), "--plain"]) == 0
    rows = query(root / "results.duckdb", "from tuning")
    tried = rows.groupby("variant")["learning_rate"].apply(sorted)
    assert tried["LA"] == tried["DR"]
    assert rows["loss"].between(1, 20).all()
    runs = query(root / "results.duckdb", "from runs join models using (study_id, model_id)")
    best = rows.loc[rows.groupby("variant")["loss"].idxmin()].set_index("variant")
    for row in runs.itertuples():
        assert row.learning_rate == best.loc[row.variant, "learning_rate"]
    assert 'data-figure="tuning"' in (root / "report/index.html").read_text()
    decided = {path: path.stat().st_mtime_ns for path in root.glob("store/decisions/*")}
    assert main(["clean", str(file), "--root", str(root), "--yes"]) == 0
    assert len(list((root / "store/runs").iterdir())) == 2
    assert main(["run", str(file), "--root", str(root), "--plain"]) == 0
    assert {path: path.stat().st_mtime_ns for path in root.glob("store/decisions/*")} == decided
