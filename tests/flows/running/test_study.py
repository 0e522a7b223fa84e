"""A study from top to bottom, with jobs made by hand: what starts when, what fails alone, what is
done only once."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from scipy.stats import t

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.jobs import Failed, Stopped
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
from dreamer_study.sql.results import Busy, connect, query
from dreamer_study.sql.statistics.sequential import NOMINAL
from tests.flows.by_hand import ONE, JobsByHand, Planned, study_file, write_state
from tests.model.saved_files import write_values

pytestmark = pytest.mark.usefixtures("light_reports")
EVALUATED = Options(until="evaluate")
RACE = {"seeds": [0, 1], "screening": 0.25}


class Seen(Steps):
    """Keeps the names of the steps: of those that do work, and of those that the store holds."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.cached: list[str] = []

    def call(
        self, kind: Any, name: str, work: Callable[[], Any], *, done: bool = False, **_: Any
    ) -> Any:
        names = self.cached if done else self.steps
        names.append(kind if kind == name else f"{kind} {name}")
        return work()


def run(plan: Plan, jobs: JobsByHand, options: Options = EVALUATED) -> Seen:
    seen = Seen()
    run_study(plan, jobs, seen, options)
    return seen


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


def change(study: Study, statement: str) -> None:
    with connect(study.database) as connection:
        connection.execute(statement)


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


@pytest.mark.slow
def test_a_failed_training_ends_no_other_and_is_tried_again(prepared: Planned) -> None:
    plan = prepared()
    failing = next(run for run in plan.runs if run.name == "DR seed 0")
    reason = f"{failing.folder}: step 3: the loss is not a number"
    jobs = JobsByHand(
        {"train DR seed 0": Failed(f"train DR seed 0: ended with status 1: {reason}", reason)}
    )
    with pytest.raises(
        Failed, match=r"train DR seed 0: .*the loss is not a number; `dreamer run .*` tries again"
    ):
        run(plan, jobs)
    assert not jobs.stopped
    assert failing.failure == "step 3: the loss is not a number"
    assert {run.name for run in plan.runs if run.done} == {"LA seed 0", "DR+DA seed 0"}
    found = query(
        plan.study.database,
        "from runs join internal.run_details using (run_id) where status = 'failed'",
    )
    assert found[["run_id", "failure"]].values.tolist() == [[failing.run_id, failing.failure]]
    assert len(query(plan.study.database, "from internal.run_details where devices = 2")) == 2
    assert not plan.trained

    again = JobsByHand()
    run(Plan(plan.study), again)
    assert {name for name in again.names if name.startswith("train ")} == {"train DR seed 0"}
    assert all("DR seed 0" in name for name in again.names)
    assert failing.failure == ""
    assert plan.evaluated
    assert query(plan.study.database, "from internal.run_details where failure is not null").empty


@pytest.mark.slow
def test_the_report_of_the_others_is_written_and_all_that_failed_is_counted(
    prepared: Planned,
) -> None:
    plan, one, other = (
        prepared(models={"variants": ["LA", "DR"]}),
        "train DR seed 0",
        "evaluate LA seed 0 at 6,007 tokens",
    )
    with pytest.raises(Failed) as error:
        run(
            plan,
            JobsByHand({one: Failed(f"{one}: no"), other: Failed(f"{other}: no memory")}),
            Options(),
        )
    assert f"; and 1 more; the report of everything else is {plan.study.report}; " in str(
        error.value
    )
    assert plan.study.report.exists()
    assert not is_complete(plan)
    assert len(query(plan.study.database, "select distinct tokens from evaluations")) == 3


def test_after_two_equal_failures_the_other_evaluations_of_a_run_wait(prepared: Planned) -> None:
    plan = prepared(**ONE)
    run(plan, JobsByHand(), Options(until="train"))
    names = [f"evaluate LA seed 0 at {one.tokens:,} tokens" for one in plan.runs[0].checkpoints]
    failing = {
        name: Failed(f"{name}: no", f"my.py:3: {number} of [3, {number}] is too much")
        for number, name in enumerate(names)
    }
    jobs = JobsByHand(failing)
    with pytest.raises(Failed, match=r"; and 3 more; `dreamer run .*` tries again"):
        run(Plan(plan.study), jobs)
    assert jobs.names == names[:2]
    later = JobsByHand({name: failing[name] for name in names[3:]})
    with pytest.raises(Failed, match=r"24,007 tokens: no; `"):
        run(Plan(plan.study), later)
    assert sorted(later.names) == sorted(names)


@pytest.mark.slow
def test_a_failed_evaluation_is_tried_again_alone(prepared: Planned) -> None:
    plan, failing = prepared(**ONE), "evaluate LA seed 0 at 6,007 tokens"
    with pytest.raises(Failed, match="no memory"):
        run(plan, JobsByHand({failing: Failed("no memory")}))
    assert (plan.trained, plan.evaluated) == (True, False)
    again = JobsByHand()
    run(Plan(plan.study), again)
    assert again.names == [failing]
    assert plan.evaluated


@pytest.mark.parametrize(
    "error",
    [InputError("no such task"), Stopped("the study is being stopped"), ZeroDivisionError()],
)
def test_bad_input_of_a_job_and_what_is_no_failure_of_it_stops_all(
    prepared: Planned, error: Exception
) -> None:
    plan, jobs = prepared(), JobsByHand({"evaluate DR+DA seed 0 at 6,007 tokens": error})
    with pytest.raises(type(error)):
        run(plan, jobs)
    assert jobs.stopped
    assert not [run.failure for run in plan.runs if run.failure]


@pytest.mark.slow
def test_a_race_is_decided_when_all_seeds_have_ended(prepared: Planned) -> None:
    plan, jobs = prepared(training=RACE, **ONE), JobsByHand(losses={0: 2.0, 1: 1.0})
    run(plan, jobs)
    assert [name for name in jobs.names if not name.startswith("evaluate")] == [
        "screen LA seed 0",
        "screen LA seed 1",
        "train LA seed 1",
    ]
    assert jobs.told.index("submitted: train LA seed 1") > jobs.told.index(
        "finished: screen LA seed 0"
    )
    assert [run.status for run in plan.runs] == ["screened", "chosen"]
    assert [run.tokens for run in plan.runs] == [6007, 24_007]
    evaluated = [name for name in jobs.names if name.startswith("evaluate")]
    assert len(evaluated) == 4, "of the seed that goes on every checkpoint, of the other none"
    assert all("seed 1" in name for name in evaluated)
    statuses = query(
        plan.study.database, "select seed, status from runs order by seed"
    ).values.tolist()
    assert statuses == [[0, "screened"], [1, "complete"]]


@pytest.mark.slow
def test_a_run_that_lost_its_race_is_trained_again_where_it_was_removed(prepared: Planned) -> None:
    plan = prepared(training=RACE, **ONE)
    run(plan, JobsByHand(losses={0: 2.0, 1: 1.0}))
    rows = "select seed, status, tokens, device, stream_hash from runs order by seed"
    before = query(plan.study.database, rows).values.tolist()
    assert before[0][:3] == [0, "screened", 6007]
    shutil.rmtree(plan.runs[0].folder)  # as `dreamer verify --repair` does
    again = Plan(plan.study)
    assert not again.trained
    run(again, jobs := JobsByHand(losses={0: 2.0, 1: 1.0}))
    assert jobs.names == ["screen LA seed 0"]
    assert query(plan.study.database, rows).values.tolist() == before
    run(Plan(plan.study), jobs := JobsByHand())
    assert jobs.names == []


@pytest.mark.slow
def test_a_seed_that_had_gone_further_before_it_lost_counts_as_far_as_its_race(
    prepared: Planned,
) -> None:
    both = prepared(training={"seeds": [0, 1]}, **ONE)
    run(both, JobsByHand())
    for one, loss in zip(both.runs, (2.0, 1.0), strict=True):
        write_values(one.folder, [(1, 6007, loss), (2, 24_007, loss)])
    plan = prepared(training=RACE, **ONE)
    run(plan, jobs := JobsByHand())
    assert jobs.submitted == []
    rows = f"from runs where study_id = '{plan.study.study_id}' order by seed"
    found = query(plan.study.database, f"select status, tokens {rows}").values.tolist()
    assert found == [["screened", 6007], ["complete", 24_007]]


@pytest.mark.slow
def test_seeds_that_fail_in_a_race_have_lost_and_are_not_tried_again_in_vain(
    prepared: Planned,
) -> None:
    plan = prepared(
        training=RACE, models={"variants": ["LA", "DR"]}, evaluation={"introspect": False}
    )
    failing = ["screen LA seed 0", "screen DR seed 0", "screen DR seed 1"]
    with pytest.raises(Failed, match="and 2 more"):
        run(plan, JobsByHand({name: Failed("no number") for name in failing}))
    assert {run.name: run.status for run in plan.runs} == {
        **{"LA seed 0": "screened", "LA seed 1": "chosen"},
        **{"DR seed 0": "racing", "DR seed 1": "racing"},
    }
    again = JobsByHand()
    run(Plan(plan.study), again)
    assert plan.evaluated
    assert {"screen DR seed 0", "screen DR seed 1"} <= set(again.names)
    assert "screen LA seed 1" not in again.names


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "seeds"), [(0.001, 4), (0.02, 8), (0.1, 10)])
def test_seeds_are_added_until_the_intervals_are_narrow(
    prepared: Planned, spread: float, seeds: int
) -> None:
    """Curves that rise in a straight line of the logarithm of the tokens; only the first four seeds
    differ."""

    def scores(run: dict[str, Any], tokens: int) -> float:
        own = spread * (-1) ** run["seed"] if run["seed"] < 4 else 0
        return 0.3 + 0.2 * math.log(tokens / 6000) + own

    until = {"high_over_low": 1.25, "most": 10}
    plan, jobs = (
        prepared(models={"variants": ["LA", "DR"]}, training={"seeds_until": until}),
        JobsByHand(scores=scores),
    )
    seen = run(plan, jobs)
    assert [len(plan.runs), plan.look, plan.evaluated] == [2 * seeds, seeds, True]
    assert seen.steps.count("statistics") == 1 + (seeds > 4) + (seeds > 8)
    again = JobsByHand(scores=scores)
    run(Plan(plan.study), again)
    assert not again.submitted
    factor = query(
        plan.study.database, "select * from mean_factors where variant = 'DR' and task = 'average'"
    )
    ((low, high, freedom, error),) = query(
        plan.study.database,
        "select low, high, degrees_of_freedom, seed_error from internal.computed_ratios where variant = 'DR'"
        "and baseline = 'LA' and task = 'average' and metric = 'accuracy'",
    ).to_numpy()
    assert math.log(high / low) == pytest.approx(2 * error * t.ppf(1 - NOMINAL / 2, freedom))
    assert factor["seeds"].item() == seeds


@pytest.mark.slow
def test_a_race_at_another_point_is_said_in_one_line(
    prepared: Planned, capsys: pytest.CaptureFixture[str]
) -> None:
    run(prepared(training=RACE, **ONE), JobsByHand())
    capsys.readouterr()
    plan, jobs = (
        prepared(training={**RACE, "tokens": 48_000, "checkpoints": [6000]}, **ONE),
        JobsByHand(),
    )
    run(plan, jobs)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "race" in line]
    assert line == "LA: the race of its seeds runs again, at 12,000 tokens"
    assert plan.evaluated


@pytest.mark.slow
def test_a_shorter_study_takes_what_a_longer_one_has_trained(prepared: Planned) -> None:
    spaced = {"checkpoints": [6000, 12_000, 18_000]}
    longer = prepared(training={**spaced, "tokens": 24_000}, **ONE)
    run(longer, JobsByHand())
    shorter, jobs = (
        prepared(training={"checkpoints": [6000], "tokens": 12_000}, **ONE),
        JobsByHand(),
    )
    run(shorter, jobs)
    assert jobs.submitted == []
    assert shorter.evaluated
    claimed = query(
        longer.study.database,
        f"select distinct tokens from internal.claims where study_id = '{shorter.study.study_id}'",
    )
    assert sorted(claimed["tokens"]) == [6007, 12_007]
    (one,) = shorter.runs
    training = json.loads((one.folder / "run.json").read_text())["training"]
    assert (training["tokens"], training["checkpoints"]) == (24_000, [6000, 12_000, 18_000, 24_000])


@pytest.mark.slow
def test_a_run_that_has_gone_past_a_checkpoint_of_the_study_is_refused(prepared: Planned) -> None:
    """Training does not go back: the study would end without its curve, each time anew."""
    longer = prepared(training={"checkpoints": [12_000]}, **ONE)
    run(longer, JobsByHand())
    plan, jobs = prepared(training={"checkpoints": [6000, 12_000, 18_000]}, **ONE), JobsByHand()
    with pytest.raises(
        InputError, match=r"LA seed 0 was trained further .* none at 6,000, 18,000 tokens; name"
    ):
        run(plan, jobs)
    assert jobs.submitted == []
    (described,) = plan.study.store_folder.glob("runs/*/run.json")
    assert json.loads(described.read_text())["training"]["checkpoints"] == [12_000, 24_000]


def test_two_studies_of_a_store_may_describe_a_run_at_once(
    prepared: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [prepared(training={"checkpoints": [point]}, **ONE) for point in (6000, 12_000)]
    ((one,), (other,)), threads = [plan.runs for plan in plans], list[Thread]()

    def copy_code(*arguments: object) -> None:
        if not threads:
            threads.append(Thread(target=write_run, args=(plans[1], other)))
            threads[0].start()
            time.sleep(0.5)  # in which the other study comes as far as it may

    monkeypatch.setattr("dreamer_study.flows.running.job_descriptions.copy_code", copy_code)
    write_run(plans[0], one)
    threads[0].join()
    assert one.folder == other.folder
    assert json.loads((one.folder / "run.json").read_text())["training"]["checkpoints"] == [
        6000,
        12_000,
        24_000,
    ]


@pytest.mark.slow
def test_runs_from_before_a_change_of_the_data_leave_the_results(prepared: Planned) -> None:
    plan = prepared(**ONE)
    run(plan, JobsByHand())
    change(
        plan.study,
        "insert into runs select * replace ('gone' as run_id, 'training' as status) from runs",
    )
    change(
        plan.study,
        "insert into ingested select * replace ('runs/gone' as output) from ingested limit 1",
    )
    change(
        plan.study, "insert into curation select * replace ('gone' as reason) from curation limit 1"
    )
    run(Plan(plan.study), JobsByHand())
    assert query(plan.study.database, "select run_id from runs")["run_id"].tolist() == [
        plan.runs[0].run_id
    ]
    for table, column in {"ingested": "output", "curation": "reason"}.items():
        assert (
            not query(plan.study.database, f"select {column} as found from {table}")["found"]
            .str.contains("gone")
            .any()
        )


def test_a_checkpoint_that_a_kill_prevented_is_written_by_the_next_start(prepared: Planned) -> None:
    plan = prepared(**ONE)
    (one,) = plan.runs
    write_run(plan, one)
    write_state(one.folder, 6007)  # the checkpoint comes after the state
    assert (one.missed, one.done) == ([], False)
    run(plan, JobsByHand(), Options(until="prepare"))
