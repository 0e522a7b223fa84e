"""A study of branches from data to rows, by the real processes of training and evaluation."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dreamer_study.flows.commands.store.verify import find_damage
from dreamer_study.flows.jobs.local import LocalJobs
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.python.results import results
from dreamer_study.flows.running.job_descriptions import write_run
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import is_complete, run_study
from dreamer_study.model.checkpoints.checksums import list_branches
from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.data import read_study
from dreamer_study.reports.text.costs import total_cost
from tests.flows.by_hand import tiny

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("light_reports")]

TRAINING = {"branches": 0.5, "tokens": 6000, "checkpoint_every": 3000}


def study(root: Path, **training: Any) -> Plan:
    return Plan(
        tiny(
            root,
            models={"variants": ["LA", "DR"]},
            training={**TRAINING, **training},
            evaluation={"depths": [1, 2, 3], "limit": 5, "weights": "branches"},
        )
    )


def run(plan: Plan, **options: Any) -> None:
    with closing(LocalJobs(plan.study)) as jobs:
        run_study(plan, jobs, Steps(), Options(**{"until": "evaluate", **options}))


@pytest.fixture(scope="module")
def finished(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A study of two models, two checkpoints and their branches, with its report."""
    root = tmp_path_factory.mktemp("study")
    shutil.copytree(tiny_store, root / "store")
    plan = study(root)
    run(plan, until="report")
    return plan


def weights(plan: Plan) -> dict[str, bytes]:
    return {
        "/".join(path.parts[-4:]): path.read_bytes()
        for path in plan.study.store_folder.glob("runs/*/*/*/*.safetensors")
        if path.parts[-3] != "state"
    }


def ask(plan: Plan, query: str) -> list[tuple]:
    with duckdb.connect(str(plan.study.database), read_only=True) as connection:
        return connection.execute(query).fetchall()


def test_branches_alone_are_evaluated_at_their_own_ends(finished: Plan) -> None:
    ends = {run.run_id: [end for _, end in list_branches(run.folder)] for run in finished.runs}
    for run_ in finished.runs:
        for start, end in list_branches(run_.folder):
            assert start * 1.5 <= end < start * 1.5 + 512 + 1
    every = sorted((run_id, end) for run_id, own in ends.items() for end in own)
    of_all = "select distinct run_id, tokens from {} order by all"
    for table in ("evaluations", "checkpoints", "internal.evaluation_versions", "items"):
        assert ask(finished, of_all.format(table)) == every, table
    benchmarks = {task for (task,) in ask(finished, "select distinct task from evaluations")}
    assert benchmarks == {"world_short", "world_long", "world_choice", "validation"}
    kinds = "select distinct weights from internal.evaluation_versions"
    assert ask(finished, kinds) == [("branches",)]
    assert ask(finished, "from raw_evaluations") == []
    assert ask(finished, "from internal.stream_mismatches") == []
    # the last place of a run is the end of its last branch, also for what is asked there alone
    last = sorted((run_id, own[-1]) for run_id, own in ends.items())
    assert ask(finished, "select run_id, tokens from runs order by all") == last
    assert ask(finished, of_all.format("answers")) == last
    assert [depth for (depth,) in ask(finished, "select distinct depth from depth_accuracy")]
    assert is_complete(finished)


def test_the_report_says_which_tokens_its_cost_leaves_out(finished: Plan) -> None:
    data = read_study(finished.study.database, finished.study.study_id)
    assert total_cost(data).endswith(", without the branches from checkpoints before the last one.")


def test_python_finds_the_folders_of_branches(finished: Plan) -> None:
    found = results(finished.study).checkpoints()
    assert len(found) == 4
    for row in found.to_dict("records"):
        described = json.loads((Path(row["folder"]) / "checkpoint.json").read_text())
        assert described["tokens"] == row["tokens"]
        assert described["branched_at"] < row["tokens"]


def test_a_damaged_branch_is_found(finished: Plan, tmp_path: Path) -> None:
    shutil.copytree(finished.study.store_folder, tmp_path / "store")
    assert find_damage(tmp_path / "store")[1] == {}
    broken = next((tmp_path / "store").glob("runs/*/branches/*/model.safetensors"))
    content = bytearray(broken.read_bytes())
    content[-1] ^= 1
    broken.write_bytes(content)
    ((folder, wrong),) = find_damage(tmp_path / "store")[1].items()
    assert folder == broken.parents[2]
    assert list(wrong) == [str(broken.relative_to(folder))]


def test_a_grown_study_is_one_that_was_longer_from_the_start(
    finished: Plan, tiny_store: Path, tmp_path: Path
) -> None:
    grown_root = tmp_path / "grown"
    shutil.copytree(finished.study.folder, grown_root)
    kept = {
        path: path.stat().st_mtime_ns
        for pattern in ("runs/*/branches/*/*", "evaluations/*/*")
        for path in (grown_root / "store").glob(pattern)
    }
    shutil.copytree(tiny_store, tmp_path / "fresh" / "store")
    grown = study(grown_root, tokens=9000)
    fresh = study(tmp_path / "fresh", tokens=9000)
    run(grown)
    run(fresh)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert weights(grown) == weights(fresh)
    assert len(ask(grown, "select distinct run_id, tokens from evaluations")) == 6


def test_a_race_has_branches_and_its_winner_the_rest(tiny_store: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_store, tmp_path / "store")
    plan = study(tmp_path, seeds=[0, 1], screening=0.5)
    run(plan)
    assert plan.evaluated
    written = {run_.status: len(list_branches(run_.folder)) for run_ in plan.runs}
    assert written == {"chosen": 2, "screened": 1}
    chosen = {run_.run_id for run_ in plan.runs if run_.status == "chosen"}
    assert {run_id for (run_id,) in ask(plan, "select distinct run_id from evaluations")} == chosen


def test_other_checkpoints_of_a_trained_run_are_refused_in_one_line(finished: Plan) -> None:
    other = study(finished.study.folder, checkpoint_every=4500)
    with pytest.raises(InputError, match="has none at 4,500 tokens") as error:
        write_run(other, other.runs[0])
    assert "\n" not in str(error.value)
