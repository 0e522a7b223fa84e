"""A study goes through its steps; nothing is done twice, and what is not whole is made whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.store_users import users_of
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.job_descriptions import write_run
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.result_rows import enter_study
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import is_complete, run_study
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.page.report import write_report
from dreamer_study.sql.results import Busy, query
from tests.flows.by_hand import ONE, JobsByHand, Planned, study_file, write_state
from tests.flows.running.seen_steps import change, run

pytestmark = pytest.mark.usefixtures("light_reports")


@pytest.mark.slow
def test_a_study_goes_from_its_data_to_its_report_and_nothing_is_done_twice(
    prepared: Planned,
) -> None:
    plan, jobs = prepared(models={"variants": ["LA", "DR"]}), JobsByHand()
    assert not is_complete(plan)
    seen = run(plan, jobs, Options())
    made = ["match match models", "statistics", "report"]
    assert seen.steps == made, "the data are there"
    trainings = [name for name in jobs.names if name.startswith("train ")]
    assert trainings == ["train LA seed 0", "train DR seed 0"]
    evaluations = [
        f"evaluate {run.name} at {one.tokens:,} tokens"
        for run in plan.runs
        for one in run.checkpoints
    ]
    assert sorted(jobs.names) == sorted([*trainings, *evaluations])
    assert {name.split()[0] for name in seen.cached} == {"data"}
    assert plan.evaluated
    assert is_complete(plan)
    study = plan.study
    assert set(query(study.database, "select status from runs")["status"]) == {"complete"}
    assert len(query(study.database, "select distinct run_id, tokens from evaluations")) == 8
    assert study.study_id in study.report.read_text()
    assert not (study.folder / "evaluating").exists()
    assert [user.finished for user in users_of(study.store_folder)] == [True]
    again = JobsByHand()
    shown = run(Plan(study), again, Options()).cached
    assert {f"training {name}" for name in trainings} < {*shown}
    assert {f"evaluation {name}" for name in evaluations} < {*shown}
    assert again.submitted == []


Damages = dict[str, Callable[[Study], object]]
# Each is noticed alone; those of a group are repaired together.
OF_ROWS: Damages = {
    "rows removed": lambda study: change(study, "delete from evaluations where tokens < 9000"),
    "a row changed": lambda study: change(
        study, "update evaluations set value = 0.75 where tokens > 9000"
    ),
    "a row added": lambda study: change(
        study, "insert into models by name select study_id, 'X' as model_id from studies"
    ),
    "a factor changed": lambda study: change(study, "update computed_ratios set ratio = 2"),
}
OF_THE_FILE: Damages = {
    "an older file": lambda study: shutil.copy(study.folder / "older.duckdb", study.database)
}
OF_THE_REPORT: Damages = {
    "report cut": lambda study: study.report.write_bytes(study.report.read_bytes()[:-100]),
    "figure removed": lambda study: next((study.report.parent / "figures").glob("*.svg")).unlink(),
    "older report": lambda study: (
        study.report.write_text("of other results"),
        change(study, "delete from claims"),
    ),
}


@pytest.mark.slow
def test_results_and_reports_that_are_not_whole_are_made_whole(
    prepared: Planned, tmp_path: Path
) -> None:
    plan = prepared(models={"variants": ["LA", "DR"]})
    study = plan.study
    run(plan, JobsByHand(), Options(until="train"))
    enter_study(plan)
    shutil.copy(study.database, study.folder / "older.duckdb")
    run(plan, JobsByHand(), Options())
    tables = (
        "evaluations",
        "models",
        "internal.claims",
        "checkpoints",
        "steps",
        "mean_factors",
        "ingested",
    )
    wanted = {table: query(study.database, f"from {table} order by all") for table in tables}
    # as by `dreamer report`: the same report
    write_report(study.database, study.study_id, study.report.parent)
    for damages in (OF_ROWS, OF_THE_FILE, OF_THE_REPORT):
        assert is_complete(plan)
        whole = tmp_path / "whole"
        shutil.copytree(study.folder, whole)
        for damage, damaging in damages.items():
            damaging(study)
            assert not is_complete(plan), damage
            put_back(whole, study)
        for damaging in damages.values():
            damaging(study)
        run(Plan(study), jobs := JobsByHand(), Options())
        assert jobs.submitted == []
        for table in tables:
            # the study's row holds a time
            columns = "* exclude (digest)" if table == "ingested" else "*"
            found = query(study.database, f"select {columns} from {table} order by all")
            assert found.equals(wanted[table][found.columns]), ([*damages], table)
        shutil.rmtree(whole)
    assert is_complete(plan)


def put_back(whole: Path, study: Study) -> None:
    """Put back the results and the report of a study as they were."""
    shutil.copy(whole / study.database.name, study.database)
    shutil.rmtree(study.report.parent)
    shutil.copytree(whole / study.report.parent.name, study.report.parent)


@pytest.mark.slow
def test_a_complete_study_says_who_holds_its_results(
    prepared: Planned,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan, held = prepared(), [Busy("in use by a shell")]
    run(plan, JobsByHand(), Options())

    def busy_once(*arguments: object) -> list[str]:
        if held:
            raise held.pop()
        return []

    monkeypatch.setattr("dreamer_study.flows.running.study.differing", busy_once)
    assert (
        main(["run", str(study_file(tmp_path)), "--root", str(plan.study.folder), "--plain"]) == 0
    )
    said = capsys.readouterr().err
    assert "in use by a shell" in said
    assert "Nothing to do" in said


def test_data_are_made_once_step_by_step(prepared: Planned) -> None:
    plan = prepared()
    for output in (plan.data.tokenizer, plan.data.packed):
        shutil.rmtree(output.path)
    seen = run(Plan(plan.study), JobsByHand(), Options(until="prepare"))
    assert seen.steps == ["data tokenizer", "data tokens", "match match models"]


@pytest.mark.slow
def test_ceilings_are_measured_once(prepared: Planned) -> None:
    plan = prepared()
    (ceiling,) = plan.data.ceilings.values()
    shutil.rmtree(ceiling.path)
    seen = run(Plan(plan.study), JobsByHand(), Options(until="prepare"))
    assert seen.steps == ["data ceiling builtin", "match match models"]
    again = run(Plan(plan.study), JobsByHand(), Options(until="prepare"))
    assert "data ceiling builtin" in again.cached


def test_a_study_is_known_to_its_store_before_its_first_output(prepared: Planned) -> None:
    plan = prepared()
    shutil.rmtree(plan.study.store_folder / "world")

    class Stops(Steps):
        def call(self, kind: Any, name: str, work: Callable[[], Any], **_: Any) -> Any:
            raise InputError(f"stopped in {name}")

    with pytest.raises(InputError, match="stopped in world"):
        run_study(Plan(plan.study), JobsByHand(), Stops())
    (user,) = users_of(plan.study.store_folder)
    assert user.folder == plan.study.folder
    assert not user.finished


@pytest.mark.slow
@pytest.mark.parametrize(
    ("until", "kinds", "following"),
    [
        ("prepare", set(), "train"),
        ("train", {"training"}, "evaluate"),
        ("evaluate", {"training", "evaluation"}, "report"),
    ],
)
def test_a_study_ends_after_a_stage_and_says_what_comes_next(
    prepared: Planned,
    capsys: pytest.CaptureFixture[str],
    until: Any,
    kinds: set[str],
    following: str,
) -> None:
    plan, jobs, trusting = prepared(**ONE), JobsByHand(), until == "train"
    run(plan, jobs, Options(until=until, trust_code=trusting))
    assert {job.kind for job in jobs.submitted} == kinds
    again = "dreamer run tiny" + " --trust-code" * trusting
    assert f"{until}: done; `{again}` continues with {following}" in capsys.readouterr().err
    (one,) = plan.runs
    described = json.loads((one.folder / "run.json").read_text())
    assert described["run_id"] == one.run_id
    assert (one.folder / described["data"]).resolve() == plan.data.packed.path.resolve()
    assert not plan.study.report.exists()
    assert plan.trained == (until != "prepare")
    rest = JobsByHand()
    run(Plan(plan.study), rest, Options())
    assert not set(rest.names) & set(jobs.names)
    assert is_complete(Plan(plan.study))


@pytest.mark.slow
def test_a_checkpoint_is_evaluated_when_it_comes(prepared: Planned) -> None:
    jobs = JobsByHand()
    run(prepared(**ONE), jobs)
    asked = f"evaluate LA seed 0 at {6007:,} tokens"
    first, second, *_ = (
        place for place, what in enumerate(jobs.told) if what == "checkpoint: train LA seed 0"
    )
    assert jobs.told[first : second + 1].count(f"submitted: {asked}") == 1
    (job,) = [job for job in jobs.submitted if job.name == asked]
    assert job.priority < jobs.submitted[0].priority, (
        "an evaluation starts before the trainings that wait"
    )


def test_a_checkpoint_that_a_kill_prevented_is_written_by_the_next_start(prepared: Planned) -> None:
    plan = prepared(**ONE)
    (one,) = plan.runs
    write_run(plan, one)
    write_state(one.folder, 6007)  # the checkpoint comes after the state
    assert (one.missed, one.done) == ([], False)
    run(plan, JobsByHand(), Options(until="prepare"))
