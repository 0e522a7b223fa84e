"""`dreamer verify` finds every kind of damage; `--repair` removes as little as the next run can make again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from flows.commands.cli import main
from flows.commands.store.verify import find_damage
from flows.plan import Plan
from flows.run import Options, Unseen, run_study
from flows.watching.single import only_run
from model.checkpoint import _save_tensors as save_tensors
from model.checkpoint import _write_checksums as write_checksums
from sql.results import query
from tests.flows.by_hand import JobsByHand, tiny
from tests.flows.small_study import TINY

EVALUATED = Options(until="evaluate")


@pytest.fixture
def root(prepared: Callable[..., Plan]) -> Path:
    """The folder of a study that was run to its results, whose checkpoints hold tensors."""
    plan = prepared()
    run_study(plan, JobsByHand(), Unseen(), EVALUATED)
    for run in plan.runs:
        for folder in (*(one.folder for one in run.checkpoints), *run.folder.glob("state/*")):
            tensors = {"a": torch.full((8,), 3.0)}
            save_tensors(folder / "averaged.safetensors", tensors)
            write_checksums(folder)
    return plan.study.folder


def one(root: Path, stage: str, name: str) -> Path:
    (found,) = root.glob(f"store/{stage}/*/{name}")
    return found


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_whole_study_is_whole(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(TINY), "--root", str(root)]) == 0
    assert "outputs and the results are whole" in capsys.readouterr().out


@pytest.mark.slow
def test_what_is_damaged_is_named_removed_and_made_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(tiny(root))
    flip(one(root, "decontaminate", "*.parquet"))
    one(root, "tokens", "manifest.json").unlink()
    one(root, "tokenizer", "manifest.json").write_text("{}")
    plan.study.database.write_bytes(plan.study.database.read_bytes()[:5000])
    command = ["verify", str(TINY), "--root", str(root)]
    assert main(command) == 1
    said = capsys.readouterr().out
    for words in ("has other content", "is missing", "is damaged", "results.duckdb", "--repair` removes"):
        assert words in said
    assert main([*command, "--repair"]) == 0
    assert main(command) == 0
    jobs = JobsByHand()
    run_study(plan, jobs, Unseen(), EVALUATED)
    assert jobs.submitted == [], "what is made again is as it was"
    assert len(query(plan.study.database, "from studies")) == 1
    assert find_damage(plan.study.store_folder)[1] == []


@pytest.mark.slow
def test_only_the_damaged_run_is_trained_again_and_only_the_damaged_evaluation_made_again(root: Path) -> None:
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
    run_study(Plan(plan.study), jobs, Unseen(), EVALUATED)
    assert {job.name for job in jobs.submitted} >= {f"train {second.name}"}
    assert {job.name.split(" at ")[0] for job in jobs.submitted} == {f"train {second.name}", f"evaluate {first.name}"}
    assert plan.evaluated


def test_status_names_a_damaged_manifest(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(TINY), "--root", str(root)]) == 0
    assert "is damaged" not in capsys.readouterr().out
    one(root, "clean", "manifest.json").write_text('{"key": "other"}')
    assert main(["status", str(TINY), "--root", str(root)]) == 0
    assert "manifest.json is damaged; `dreamer verify" in capsys.readouterr().out
    with only_run(Plan(tiny(root)).study):
        main(["status", str(TINY), "--root", str(root)])
    assert ": running (process " in capsys.readouterr().out
