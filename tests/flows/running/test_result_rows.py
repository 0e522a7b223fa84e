"""Evaluation within a study: all places are used, and everything found becomes rows of the results
database."""

from __future__ import annotations

import json
from contextlib import closing

import duckdb
import pytest

from dreamer_study.flows.jobs.local import LocalJobs
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress import reports
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.result_rows import enter_evaluations, enter_study
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import run_study
from tests.flows.by_hand import Heard, tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def heard() -> Heard:
    return Heard()


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, heard: Heard) -> Plan:
    """A study of two models and three checkpoints up to its results; more places than runs."""
    study = tiny(
        tmp_path_factory.mktemp("study"),
        models={"variants": ["LA", "DR+DA"]},
        training={"seeds": [0], "screening": 0, "tokens": 3000, "checkpoints": 3},
        evaluation={"depths": [1, 2, 3], "limit": 5, "bootstrap_replicates": 0, "weights": "both"},
        workers=3,
    )
    plan = Plan(study)
    with closing(LocalJobs(study)) as jobs, reports.listening(heard):
        run_study(plan, jobs, Steps(), Options(until="evaluate"))
    enter_study(plan)  # again, which changes nothing
    enter_evaluations(plan, [one for run in plan.runs for one in plan.evaluations(run)])
    return plan


@pytest.mark.usefixtures("evaluated")
def test_every_step_is_done_once(heard: Heard) -> None:
    each_source = ("documents world", "traces world", "clean world", "signatures world")
    of_all = ("deduplicate", "decontaminate", "tokenizer", "tokens", "funnel")
    done = [key for key, _, words in heard.reports if words == "done" and key != "statistics"]
    assert done[:-2] == ["world", "items", *each_source, *of_all]
    assert set(done[-2:]) == {"train LA seed 0", "train DR+DA seed 0"}


def test_all_that_evaluation_finds_is_entered_once(evaluated: Plan) -> None:
    study, runs = evaluated.study, evaluated.runs
    points = {
        run.run_id: sorted(int(p.name) for p in (run.folder / "checkpoints").iterdir())
        for run in runs
    }
    layered, recurrent = (run.run_id for run in runs)
    with duckdb.connect(str(study.database), read_only=True) as connection:

        def ask(query: str) -> list[tuple]:
            return connection.execute(query).fetchall()

        asked = ask(
            "select task, facts.value from items left join item_facts as facts using (task, item_id)"
            " where task <> 'validation' group by all"
        )
        assert {task for task, steps in asked if steps is None} <= {"world_recall", "world_text"}
        assert {steps for _, steps in asked} > {1.0}
        said = ask(
            "select run_id, tokens, step, epoch, loss, seconds, stream_hash from checkpoints order by all"
        )
        for run_id, tokens, *values in said:
            folder = next(run.folder for run in runs if run.run_id == run_id)
            written = json.loads(
                (folder / "checkpoints" / f"{tokens:015d}" / "checkpoint.json").read_text()
            )
            names = ("step", "epoch", "loss", "seconds", "stream_hash")
            assert values == [written[name] for name in names]
        assert [row[:2] for row in said] == sorted(
            (run, tokens) for run, own in points.items() for tokens in own
        )
        assert ask("select * from internal.stream_mismatches") == []

        benchmarks = {name for (name,) in ask("select distinct task from evaluations")}
        assert benchmarks == {"world_short", "world_long", "world_choice", "validation"}
        versions = ask("select distinct run_id, tokens, task from internal.evaluation_versions")
        assert len(versions) == len(ask("from internal.evaluation_versions")) == 2 * 3 * 4
        (packages,) = ask("select distinct packages from internal.evaluation_versions")
        assert {"python", "torch", "lm-eval", "tokenizers"} <= set(json.loads(packages[0]))

        losses = "select distinct task from evaluations where metric = 'gold_bits_per_byte' and stderr > 0 order by all"
        assert ask(losses) == [("world_choice",), ("world_long",), ("world_short",)]
        validation = "from items where task = 'validation'"
        assert ask(f"select distinct metric, filter {validation}") == [("bits_per_byte", "none")]
        assert ask(f"select count(*), min(value) > 0 {validation}") == [(2 * 3 * 5, True)]
        assert ask("from benchmarks where task = 'validation'") == []

        # Recurrent models run at other depths, at their last checkpoint; where it is their own it
        # is the evaluation.
        depths = ask("select distinct run_id, tokens, depth from depth_evaluations order by all")
        assert depths == [(recurrent, points[recurrent][-1], depth) for depth in (1, 2, 3)]
        assert ask("select count(*) from depth_evaluations where depth = 2") == ask(
            "select count(*) from depth_evaluations "
            "join evaluations using (run_id, tokens, task, metric, filter, value) where depth = 2"
        )

        answered = ask(
            "select run_id, max(tokens), count(distinct tokens), count(distinct task) from answers group by all"
        )
        assert sorted(answered) == sorted((run, own[-1], 1, 3) for run, own in points.items())

        # The averaged weights are evaluated, and beside them the raw ones, which are others.
        assert ask("select distinct weights from internal.evaluation_versions") == [("averaged",)]
        keys = "run_id, tokens, task, metric, filter, items, chance"
        assert ask(f"select {keys} from raw_evaluations order by all") == ask(
            f"select {keys} from evaluations order by all"
        )

        usage = ask(
            "select run_id, tokens, depth, sum(selections) from expert_usage group by all order by all"
        )
        assert [row[:3] for row in usage] == [
            (run, tokens, depth)
            for run in sorted(points)
            for tokens in points[run]
            for depth in (1, 2)
        ]
        assert len({row[3] for row in usage}) == 1  # the same tokens for every model
        assert ask("select count(*), min(run_id) from depth_attention") == [(3 * 3, recurrent)]
        assert layered not in {row[0] for row in ask("select run_id from depth_attention")}
        assert len(ask("from depth_accuracy")) == 3 * 3
