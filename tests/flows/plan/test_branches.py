"""Branches in a study: what is refused, keys, places on the token axis, what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.estimates.data_needs import data_needs
from dreamer_study.flows.estimates.study_estimate import Machine, estimate_study
from dreamer_study.flows.plan.elsewhere import settings_as_inputs
from dreamer_study.flows.plan.preflight import bytes_written, phases
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.steps import Steps
from dreamer_study.model.checkpoints.checksums import branch_name
from dreamer_study.pipeline.errors import InputError
from tests.flows.by_hand import Planned, tiny, write_checkpoint, write_state
from tests.flows.plan.test_preflight import plan_models

BRANCHED = {"training": {"branches": 0.2}, "evaluation": {"weights": "branches"}}


def branched(**training: Any) -> dict[str, Any]:
    return {**BRANCHED, "training": {**BRANCHED["training"], **training}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"training": {"branches": 0.2}},
            "training.branches is 0.2, but evaluation.weights is 'averaged' and evaluates no branch; set",
        ),
        (
            {"training": {"branches": 0.2}, "evaluation": {"weights": "both"}},
            "training.branches is 0.2, but evaluation.weights is 'both' and evaluates no branch; set",
        ),
        (
            {"evaluation": {"weights": "branches"}},
            "evaluation.weights is 'branches', but training.branches is 0; set training.branches,",
        ),
        (
            branched(schedule="linear"),
            "training.branches is 0.2, but the schedule lets the learning rate decay already; set",
        ),
        (
            branched(schedule={"decay": 0.2}),
            "training.branches is 0.2, but the schedule lets the learning rate decay already; set",
        ),
        (
            {
                **BRANCHED,
                "models": {
                    "variants": [
                        "LA",
                        {"name": "B", "family": "DR", "training": {"schedule": "cosine"}},
                    ]
                },
            },
            "models.variants: B: training.branches is 0.2, but the schedule lets the learning rate decay",
        ),
        (
            {
                **BRANCHED,
                "models": {
                    "variants": ["LA", {"name": "B", "family": "DR", "training": {"branches": 0.5}}]
                },
            },
            "unknown key 'branches'",
        ),
        (
            branched(warmup_steps=20),
            "branches: the checkpoint at 6,000 tokens lies within the warm-up (10,240 tokens),",
        ),
        (
            branched(checkpoints=[0, 12_000], warmup_steps=0),
            "branches: the branch from the checkpoint at 0 tokens has 0 tokens, less than two",
        ),
        (
            branched(branches=0.1),
            "branches: the branch from the checkpoint at 6,000 tokens has 600 tokens, less than two",
        ),
        (
            branched(checkpoints=[12_000, 12_500]),
            "branches: the checkpoints at 12,000 and 12,500 tokens are less than two optimiser steps",
        ),
        (branched(branches=-0.1), "training.branches is -0.1, but it must be greater than or"),
        (branched(branches=1.5), "training.branches is 1.5, but it must be less than or equal"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        tiny(tmp_path, **changes)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_branches_need_no_average(tmp_path: Path) -> None:
    assert tiny(tmp_path, **branched(averaging=0)).training.branches == 0.2


@pytest.mark.slow
def test_runs_have_a_key_of_their_own_and_a_study_without_branches_keeps_its(
    prepared: Planned,
) -> None:
    without, zero, one, other = (
        {run.name: run.run_id for run in prepared(**changes).runs}
        for changes in (
            {},
            {"training": {"branches": 0}},
            BRANCHED,
            branched(branches=0.3),
        )
    )
    assert zero == without
    assert not set(without.values()) & set(one.values())
    assert not set(one.values()) & set(other.values())
    ids = [prepared(**changes).study.study_id for changes in ({}, {"training": {"branches": 0}})]
    assert ids[0] == ids[1]


@pytest.mark.slow
def test_a_longer_study_keeps_its_runs_and_the_places_of_its_branches(prepared: Planned) -> None:
    before, after = (
        prepared(**branched(tokens=tokens, checkpoint_every=6000)) for tokens in (12_000, 24_000)
    )
    assert [run.run_id for run in before.runs] == [run.run_id for run in after.runs]
    run = before.runs[0]
    for point in run.points:
        write_branch(run.folder, point + 7)
    write_state(run.folder, 12_007)
    kept = {evaluation.key for evaluation in before.evaluations(before.runs[0])}
    on_the_way = {evaluation.key for evaluation in after.evaluations(after.runs[0])}
    assert before.runs[0].done
    assert not after.runs[0].done
    assert kept
    # the last checkpoint of a recurrent model alone is evaluated at other depths
    assert kept == on_the_way


def write_branch(folder: Path, start: int) -> tuple[int, Path]:
    """Write a checkpoint and the end of its branch, as far as files go."""
    write_checkpoint(folder, start)
    end = round(1.2 * start)
    made = write_checkpoint(folder, end)
    (folder / "branches").mkdir(exist_ok=True)
    return end, made.rename(folder / "branches" / branch_name(start, end))


@pytest.mark.slow
def test_a_branch_stands_at_its_own_end_and_a_run_is_done_with_its_last_branch(
    prepared: Planned, tmp_path: Path
) -> None:
    plan = prepared(**BRANCHED)
    run = plan.runs[0]
    ends = []
    for point in run.points[:-1]:
        end, folder = write_branch(run.folder, point + 7)
        ends.append((point, end, folder))
    write_checkpoint(run.folder, run.points[-1] + 7)
    write_state(run.folder, run.points[-1] + 7)
    found = [(one.point, one.tokens, one.folder) for one in run.written]
    assert found == ends
    assert [one.tokens for one in run.on_the_way] == [point + 7 for point in run.points]
    assert not run.done, "the branch of the last checkpoint is missing"
    assert run.missed == []
    ends.append((run.points[-1], *write_branch(run.folder, run.points[-1] + 7)))
    assert run.done
    evaluations = plan.evaluations(run)
    assert {one.checkpoint.tokens for one in evaluations} == {end for _, end, _ in ends}
    assert {one.configuration.get("weights", "branches") for one in evaluations} == {"branches"}


@pytest.mark.slow
def test_a_run_that_has_passed_a_checkpoint_without_its_branch_is_told(prepared: Planned) -> None:
    run = prepared(**BRANCHED).runs[0]
    for point in run.points:
        write_checkpoint(run.folder, point + 7)
    write_branch(run.folder, run.points[1] + 7)
    write_state(run.folder, run.points[-1] + 7)
    assert run.missed == [run.points[0], run.points[2]]


@pytest.mark.slow
def test_a_search_has_no_branches(prepared: Planned) -> None:
    tune = {"learning_rate": [1e-3, 2e-3], "seeds": [9], "tokens": 3000}
    searched, plain = prepared(**branched(tune=tune)), prepared(training={"tune": tune})
    prepare_data(plain, Steps())  # with documents to tune on
    assert [run.run_id for run in searched.tuning_runs] == [run.run_id for run in plain.tuning_runs]
    assert searched.rates_decision == plain.rates_decision
    assert {searched.weights_of(run) for run in searched.tuning_runs} == {"averaged"}


@pytest.mark.parametrize("screening", [0, 0.5])
def test_flops_time_and_disk_count_the_branches(tmp_path: Path, screening: float) -> None:
    seeds = {"seeds": [0, 1], "screening": screening}
    plain = tiny(tmp_path, training=seeds)
    study = tiny(tmp_path, **branched(**seeds))
    models = plan_models(study, 300)

    def tokens(one: Any) -> list[int]:
        return [
            sum(training.tokens for training in phase if training.model is models[0])
            for phase in phases(one, models)
        ]

    points = study.training.points
    assert points == (6000, 12_000, 18_000, 24_000)
    if screening:
        assert tokens(plain) == [2 * 12_000, 12_000]
        assert tokens(study) == [2 * (12_000 + 3600), 12_000 + 8400]
    else:
        assert tokens(plain) == [2 * 24_000]
        assert tokens(study) == [2 * (24_000 + 12_000)]

    written = [bytes_written(one, models) for one in (plain, study)]
    parameters = 4 * sum(model.parameters for model in models)
    checkpoints = 2 * 2 + 2 if screening else 2 * 4
    assert written[0] == (checkpoints * parameters, 2 * 4 * parameters)
    # a folder more for each checkpoint; weights and moments while a branch is trained
    assert written[1] == (2 * checkpoints * parameters, 2 * (4 + 3) * parameters)

    before, after = (estimate_study(one, Machine(tflops=0.01)) for one in (plain, study))
    share = sum(tokens(study)) / sum(tokens(plain))
    assert after.flops / before.flops == pytest.approx(share)
    assert after.times is not None
    assert before.times is not None
    assert after.times.training > 1.2 * before.times.training
    # the last branch reads on
    assert data_needs(study).epochs.trained == 24_000 + 4800


def test_rows_from_elsewhere_must_have_the_same_share(tmp_path: Path) -> None:
    assert "training.branches" not in settings_as_inputs(tiny(tmp_path))
    inputs = settings_as_inputs(tiny(tmp_path, **BRANCHED))
    assert inputs["training.branches"] == "0.2"
    assert inputs["evaluation.weights"] == "branches"
