"""A job that fails ends no other, and is tried again."""

from __future__ import annotations

import pytest

from dreamer_study.flows.jobs import Failed, Stopped
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.study import is_complete
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import query
from tests.flows.by_hand import ONE, JobsByHand, Planned
from tests.flows.running.seen_steps import run

pytestmark = pytest.mark.usefixtures("light_reports")


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


@pytest.mark.slow
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


@pytest.mark.slow
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
