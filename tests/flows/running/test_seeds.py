"""Seeds that race, that lose, and that are added until the intervals are narrow."""

from __future__ import annotations

import math
import shutil
from typing import Any

import pytest
from scipy.stats import t

from dreamer_study.flows.jobs import Failed
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.sql.results import query
from dreamer_study.sql.statistics.sequential import NOMINAL
from tests.flows.by_hand import ONE, JobsByHand, Planned
from tests.flows.running.seen_steps import run
from tests.model.saved_files import write_values

pytestmark = pytest.mark.usefixtures("light_reports")
RACE = {"seeds": [0, 1], "screening": 0.25}


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
