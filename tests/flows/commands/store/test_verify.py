"""`dreamer verify` finds every kind of damage; `--repair` removes as little as the next run can
make again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.store.verify import find_damage
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.live_results import report_mark
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import run_study
from dreamer_study.model.checkpoints.checksums import write_checksums
from dreamer_study.model.checkpoints.models import _save_tensors as save_tensors
from dreamer_study.pipeline.storage.integrity import sealed
from dreamer_study.sql.results import connect, query
from tests.flows.by_hand import JobsByHand, study_file, tiny
from tests.flows.small_study import TINY
from tests.pipeline.storage.test_store import flip

pytestmark = pytest.mark.usefixtures("light_reports")
EVALUATED = Options(until="evaluate")


@pytest.fixture
def root(prepared: Callable[..., Plan]) -> Path:
    """The folder of a study that was run to its results, whose checkpoints hold tensors."""
    plan = prepared()
    run_study(plan, JobsByHand(), Steps(), EVALUATED)
    for run in plan.runs:
        for folder in (*(one.folder for one in run.checkpoints), *run.folder.glob("state/*")):
            tensors = {"a": torch.full((8,), 3.0)}
            save_tensors(folder / "averaged.safetensors", tensors)
            write_checksums(folder)
    return plan.study.folder


def one(root: Path, stage: str, name: str) -> Path:
    (found,) = root.glob(f"store/{stage}/*/{name}")
    return found


@pytest.mark.slow
def test_what_is_damaged_is_named_removed_and_made_again(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(tiny(root))
    flip(one(root, "decontaminate", "*.parquet"))
    one(root, "tokens", "manifest.json").unlink()
    one(root, "tokenizer", "manifest.json").write_text("{}")
    plan.study.database.write_bytes(plan.study.database.read_bytes()[:5000])
    command = ["verify", str(TINY), "--root", str(root)]
    assert main(command) == 1
    said = capsys.readouterr().out
    for words in (
        "has other content",
        "is missing",
        "is damaged",
        "results.duckdb",
        "--repair` removes",
    ):
        assert words in said
    assert main([*command, "--repair"]) == 0
    assert main(command) == 0
    jobs = JobsByHand()
    run_study(plan, jobs, Steps(), EVALUATED)
    assert jobs.submitted == [], "what is made again is as it was"
    assert len(query(plan.study.database, "from studies")) == 1
    assert find_damage(plan.study.store_folder)[1] == {}


@pytest.mark.slow
def test_a_study_file_that_was_edited_since_leaves_the_store_to_be_compared(
    root: Path, tmp_path: Path
) -> None:
    report_mark(Plan(tiny(root)).study).write_text("")
    for number, change in enumerate(
        ({"data": {"tokenizer": {"vocabulary_size": 280}}}, {"training": {"seeds": [7]}})
    ):
        edited = study_file(tmp_path, name=f"edited{number}", **change)
        assert main(["verify", str(edited), "--root", str(root)]) == 0


@pytest.mark.slow
def test_only_the_damaged_run_is_trained_again_and_only_the_damaged_evaluation_made_again(
    root: Path,
) -> None:
    plan = Plan(tiny(root))
    first, second, *_ = plan.runs
    flip(second.checkpoints[1].folder / "averaged.safetensors")
    damaged = next(one for one in plan.evaluations(first) if list(one.folder.glob("*.parquet")))
    flip(next(damaged.folder.glob("*.parquet")))
    assert main(["verify", str(TINY), "--root", str(root), "--repair"]) == 0
    assert first.done
    assert not second.folder.exists()
    assert [one for one in plan.evaluations(first) if not one.done] == [damaged]
    jobs = JobsByHand()
    run_study(Plan(plan.study), jobs, Steps(), EVALUATED)
    assert {job.name for job in jobs.submitted} >= {f"train {second.name}"}
    assert {job.name.split(" at ")[0] for job in jobs.submitted} == {
        f"train {second.name}",
        f"evaluate {first.name}",
    }
    assert plan.evaluated


@pytest.mark.slow
def test_a_damaged_decision_and_a_damaged_step_log_are_found_and_removed(root: Path) -> None:
    plan = Plan(tiny(root))
    run, decision = plan.runs[0].folder, plan.store.root / "decisions" / "0123456789abcdef.json"
    decision.parent.mkdir()
    decision.write_text(sealed({"seed": 0}))
    assert find_damage(plan.store.root)[1] == {}
    for path in (decision, run / "steps.csv"):
        flip(path)
    assert {path: [*wrong] for path, wrong in find_damage(plan.store.root)[1].items()} == {
        run: ["steps.csv"],
        decision: ["."],
    }
    assert main(["verify", str(TINY), "--root", str(root), "--repair"]) == 0
    assert not run.exists()
    assert not decision.exists()


@pytest.mark.slow
def test_rows_that_were_removed_or_changed_are_named_and_entered_again(
    prepared: Callable[..., Plan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = prepared()
    run_study(plan, JobsByHand(), Steps())
    wanted = query(plan.study.database, "from evaluations order by all")
    command = ["verify", str(study_file(tmp_path)), "--root", str(plan.study.folder)]
    assert main(command) == 0
    assert "outputs and the results are whole" in capsys.readouterr().out
    for change in (
        "delete from evaluations where tokens < 9000",
        "update checkpoints set loss = 3.5",
    ):
        with connect(plan.study.database) as connection:
            connection.execute(change)
        assert main(command) == 1
        assert "are missing or changed" in capsys.readouterr().out
        run_study(Plan(plan.study), JobsByHand(), Steps())
        assert query(plan.study.database, "from evaluations order by all").equals(wanted)
        assert main(command) == 0
