"""Studies of one store take what others trained, and leave what is no longer theirs."""

from __future__ import annotations

import json
import time
from threading import Thread

import pytest

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.job_descriptions import write_run
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import query
from tests.flows.by_hand import ONE, JobsByHand, Planned
from tests.flows.running.seen_steps import change, run

pytestmark = pytest.mark.usefixtures("light_reports")


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
