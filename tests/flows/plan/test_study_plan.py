"""Plans: the key of an output, a run or an evaluation changes with what decides it, and what is
done is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.states import read_states
from dreamer_study.flows.plan.study_plan import Checkpoint, Plan
from dreamer_study.flows.progress.study_lock import LOCK
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.storage.integrity import sealed
from tests.flows.by_hand import (
    BENCHMARK,
    Planned,
    study_file,
    tiny,
    train,
    write_checkpoint,
    write_own_rows,
)
from tests.flows.small_study import TINY
from tests.model.saved_files import write_values


def data_keys(plan: Plan) -> dict[str, str]:
    of_benchmarks = ("late", "ceiling")
    return {
        output.stage: output.key
        for output in plan.data.outputs
        if output.stage not in of_benchmarks
    }


def evaluation_keys(plan: Plan) -> dict[tuple[str, int, str], str]:
    """The keys of the evaluations of every planned checkpoint, by model, tokens and benchmark."""
    return {
        (run.name, point, one.benchmark): one.key
        for run in plan.runs
        for point in run.points
        for one in plan.evaluations_of(run, Checkpoint(point, point, Path()))
    }


def kept(before: dict[Any, str], after: dict[Any, str]) -> set[Any]:
    return {name for name, key in before.items() if after.get(name) == key}


AFTER_CURATION = {"tokens", "funnel"}
OF_ITEMS = {"items", "decontaminate", "tokenizer", *AFTER_CURATION}
OWN_KEEP = {"name": "LA", "family": "LA", "training": {"keep": 3}}
EVERYTHING = set(data_keys(Plan(load_study(TINY))))
MINE = {**BENCHMARK, "name": "mine", "repository": "owner/mine", "task": "arc_easy", "answer": "a"}
ITEMS = [{"q": "What is 2 + 3?", "a": "5"}]


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"name": "other", "workers": 3}, set()),
        ({"data": {"memory": "1GB"}, "compute": {"cluster": "local"}}, set()),
        ({"training": {"seeds": [0, 5]}}, set()),
        ({"training": {"tokens": 48_000, "learning_rate": 1e-3}}, set()),
        ({"evaluation": {"benchmarks": ["builtin", {**MINE, "late": True}]}}, set()),
        ({"evaluation": {"benchmarks": ["builtin", MINE]}}, OF_ITEMS),
        ({"training": {"sequence_length": 64}}, AFTER_CURATION),
        ({"data": {"seed": 1}}, AFTER_CURATION),
        ({"data": {"validation": 7}}, AFTER_CURATION),
        ({"data": {"tuning": 7}}, AFTER_CURATION),
        ({"data": {"tokenizer": {"vocabulary_size": 300}}}, {"tokenizer", *AFTER_CURATION}),
        (
            {"data": {"deduplicate": {"near": False}}},
            EVERYTHING - {"world", "documents", "traces", "clean", "items"},
        ),
        ({"data": {"limit": 100}}, EVERYTHING - {"world", "items"}),
        ({"data": {"world": {"documents": 100}}}, EVERYTHING),
    ],
)
def test_data_are_made_again_by_what_decides_them(
    tmp_path: Path, changes: dict[str, Any], changed: set[str]
) -> None:
    write_own_rows(tmp_path / "mirror", "mine", ITEMS)
    here = {"data": {"mirror": str(tmp_path / "mirror"), **changes.get("data", {})}}
    before, after = (
        data_keys(Plan(tiny(tmp_path))),
        data_keys(Plan(tiny(tmp_path, **{**changes, **here}))),
    )
    assert set(before) - kept(before, after) == changed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "runs", "evaluations"),
    [
        ({"training": {"seeds": [0, 1]}}, True, True),
        ({"training": {"seeds": [3, 1, 0]}}, True, True),
        ({"models": {"variants": ["DR+DA", "LA", "DR"]}}, True, True),
        ({"training": {"micro_batch_tokens": 256, "keep": 3, "ranks": 2}}, True, True),
        ({"name": "other", "workers": 3, "evaluation": {"bootstrap_replicates": 7}}, True, True),
        ({"evaluation": {"batch_tokens": 4096}}, True, True),
        ({"evaluation": {"limit": 7}}, True, False),
        ({"evaluation": {"max_new_tokens": 7}}, True, False),
        # whose checkpoints hold the raw weights too
        ({"evaluation": {"weights": "both"}}, False, False),
        ({"training": {"learning_rate": 1e-3}}, False, False),
        ({"training": {"schedule": "linear"}}, False, False),
        ({"models": {"variants": [OWN_KEEP, "DR", "DR+DA"]}}, True, True),
        ({"training": {"batch_tokens": 1024}}, False, False),
        ({"training": {"precision": "bfloat16"}}, False, False),
        ({"models": {"dreamer": {"hidden_size": 16}}}, False, False),
    ],
)
def test_runs_and_evaluations_are_made_again_by_what_decides_them(
    prepared: Planned, changes: dict[str, Any], runs: bool, evaluations: bool
) -> None:
    before, after = prepared(), prepared(**changes)
    first, second = ({run.name: run.run_id for run in plan.runs} for plan in (before, after))
    assert len(set(second.values())) == len(second)
    assert kept(first, second) == (set(first) if runs else set())
    first, second = evaluation_keys(before), evaluation_keys(after)
    # which no setting of the scores decides
    decided = {key for key in first if key[2] != "introspection"}
    assert kept(first, second) & decided == (decided if evaluations else set())


@pytest.mark.parametrize("tokens", [48_000, 36_000])
def test_a_longer_study_keeps_its_runs_and_the_evaluations_on_the_way(
    prepared: Planned, tokens: int
) -> None:
    spacing = {"checkpoint_every": 6000}
    before, after = (prepared(training={"tokens": one, **spacing}) for one in (24_000, tokens))
    assert [run.run_id for run in before.runs] == [run.run_id for run in after.runs]
    first, second = evaluation_keys(before), evaluation_keys(after)
    on_the_way = {key for key in first if key[1] < 24_000}
    assert on_the_way
    assert on_the_way <= kept(first, second)


def test_other_depths_decide_the_last_evaluation_of_recurrent_models_alone(
    prepared: Planned,
) -> None:
    before, after = (prepared(evaluation={"depths": depths}) for depths in ([], [1, 2]))
    first, second = evaluation_keys(before), evaluation_keys(after)
    changed = set(first) - kept(first, second)
    assert {(name.split()[0], point) for name, point, _ in changed} == {
        ("DR", 24_000),
        ("DR+DA", 24_000),
    }
    assert "introspection" not in {benchmark for *_, benchmark in changed}


@pytest.mark.parametrize(
    "changed", ["mine.yaml", "base.yaml", "lists/more.yaml", "lists/prompts/ask.py"]
)
def test_a_task_is_asked_again_where_a_file_that_defines_it_has_changed(
    prepared: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lists/prompts").mkdir(parents=True)
    write_own_rows(tmp_path / "mirror", "mine", ITEMS)
    (tmp_path / "mine.yaml").write_text("include: base.yaml\ntask: mine\n")
    (tmp_path / "base.yaml").write_text("include: [lists/more.yaml]\n")
    (tmp_path / "lists/more.yaml").write_text("doc_to_text: !function prompts.ask.short\n")
    (tmp_path / "lists/prompts/ask.py").write_text("def short(item): return item['q']\n")
    changes = {
        "data": {"mirror": str(tmp_path / "mirror")},
        "evaluation": {"benchmarks": ["builtin", {**MINE, "yaml": "mine.yaml", "late": True}]},
    }
    before = evaluation_keys(prepared(**changes))
    with (tmp_path / changed).open("a") as file:
        file.write("# changed\n")
    after = evaluation_keys(prepared(**changes))
    assert {name for *_, name in set(before) - kept(before, after)} == {"mine"}


def test_a_plan_writes_nothing(prepared: Planned, tmp_path: Path) -> None:
    plan = prepared()
    train(plan.runs[0])
    before = everything(tmp_path)
    again = Plan(plan.study)
    assert again.prepared
    assert [again.trained, again.evaluated] == [False, False]
    assert again.evaluations(again.runs[0])
    assert list(again.names())
    assert everything(tmp_path) == before
    unbegun = Plan(tiny(tmp_path / "unbegun"))
    assert not unbegun.prepared
    assert not unbegun.evaluated
    assert list(unbegun.names())
    assert everything(tmp_path) == before


def everything(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_what_is_done_is_known(prepared: Planned) -> None:
    plan = prepared(models={"variants": ["LA"]}, evaluation={"introspect": False})
    (run,) = plan.runs
    assert not run.done
    train(run, 12_000)
    assert (run.tokens, run.done) == (12_007, False)
    assert [one.point for one in run.checkpoints] == [6000, 12_000]
    for point in (18_000, 24_000):
        write_checkpoint(run.folder, point + 7)
    assert not run.done, (
        "killed between the last checkpoint and its state, which is still that of 12,000"
    )
    write_values(run.folder, [(1, 24_007, 1.0)])
    assert run.done
    assert plan.trained
    assert not plan.evaluated
    evaluations = plan.evaluations(run)
    assert len(evaluations) == 4 * len(plan.decisive)
    for one in evaluations:
        assert not one.done
        one.folder.mkdir(parents=True)
    assert plan.evaluated
    used = set(plan.names())
    assert {f"runs/{run.run_id}", *(f"evaluations/{one.key}" for one in evaluations)} < used
    assert {output.name for output in plan.data.outputs} < used


def test_checkpoints_are_the_first_at_or_above_their_points(prepared: Planned) -> None:
    plan = prepared(models={"variants": ["LA"]})
    (run,) = plan.runs
    # the last is of another study: a step has 512 tokens
    for tokens in (5999, 6511, 9000, 12_000, 18_513):
        write_checkpoint(run.folder, tokens)
    (run.folder / "checkpoints" / "000000000024000.partial").mkdir()
    assert [(one.point, one.tokens) for one in run.checkpoints] == [(6000, 6511), (12_000, 12_000)]


def test_points_within_one_step_share_a_checkpoint_that_is_evaluated_once(
    prepared: Planned,
) -> None:
    plan = prepared(models={"variants": ["DR"]}, training={"checkpoints": [6000, 6001, 23_999]})
    (run,) = plan.runs
    for tokens in (6007, 24_007):
        write_checkpoint(run.folder, tokens)
    write_values(run.folder, [(1, 24_007, 1.0)])
    assert run.done
    assert [(one.point, one.tokens) for one in run.written] == [(6001, 6007), (24_000, 24_007)]
    assert run.expected == 2
    keys = [one.key for one in plan.evaluations(run)]
    assert len(set(keys)) == len(keys) == 2 * len(plan.decisive)


def test_a_race_is_decided_once_all_its_seeds_have_ended(prepared: Planned) -> None:
    plan = prepared(models={"variants": ["LA"]}, training={"seeds": [0, 1], "screening": 0.25})
    first, second = plan.runs
    assert {run.status for run in plan.runs} == {"racing"}
    assert (first.goal, second.goal) == (6000, 6000)
    train(first)
    assert not plan.undecided
    assert plan.evaluations(first) == []
    train(second)
    (runs,) = plan.undecided
    path = plan.decision(runs)
    path.parent.mkdir()
    path.write_text(sealed({"seed": 1}))
    assert [(run.status, run.goal) for run in plan.runs] == [("screened", 6000), ("chosen", 24_000)]
    assert not plan.undecided
    assert not plan.evaluations(plan.runs[0])
    assert plan.evaluations(plan.runs[1])
    assert f"decisions/{path.stem}" in set(plan.names())
    longer = prepared(
        models={"variants": ["LA"]}, training={"seeds": [0, 1], "screening": 0.25, "tokens": 48_000}
    )
    assert [run.run_id for run in longer.runs] == [run.run_id for run in plan.runs]
    assert {run.status for run in longer.runs} == {"racing"}, "the race is held at another point"


@pytest.mark.slow
def test_a_late_benchmark_leaves_data_and_trainings_done(
    prepared: Planned, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_own_rows(tmp_path / "mirror", "mine", ITEMS)
    plan = prepared(models={"variants": ["LA"]}, evaluation={"introspect": False})
    train(plan.runs[0])
    (plan.study.folder / LOCK).touch()
    for changed, words, state in (
        ({"late": True}, "0 of 1 training, ", "complete"),
        (
            {"late": True, "repository": "me/absent"},
            "not known before all data sets are here: mine",
            "waiting",
        ),
        ({}, "data, then every training and every evaluation", "waiting"),
    ):
        more = {"data": {"mirror": str(tmp_path / "mirror")}, "models": {"variants": ["LA"]}}
        more["evaluation"] = {"introspect": False, "benchmarks": ["builtin", {**MINE, **changed}]}
        path = study_file(tmp_path, **more)
        status, _ = (
            main([one, str(path), "--root", str(plan.study.folder)])
            for one in ("plan", "checkpoints")
        )
        assert status == 0
        said = capsys.readouterr()
        assert f"left      {words}" in said.out
        assert ("not fetched yet: mine" in said.err) == ("repository" in changed)
        states = {
            one.stage: one.state
            for one in read_states(Plan(load_study(path, root=plan.study.folder)))
        }
        assert states["tokens"] == states["train"] == state
        assert states.get("late") == ("waiting" if changed else None)


def test_only_a_limit_names_the_sample_in_keys(prepared: Planned) -> None:
    """Evaluations of all items keep the keys that they had when a limit took the first items."""
    for limit, named in ((None, False), (7, True)):
        plan = prepared(evaluation={"limit": limit})
        run = plan.runs[0]
        checkpoint = Checkpoint(run.points[0], run.points[0], Path())
        settings = {
            one.benchmark: "sample" in one.configuration
            for one in plan.evaluations_of(run, checkpoint)
        }
        assert settings.pop("introspection") is False
        assert set(settings.values()) == {named}
