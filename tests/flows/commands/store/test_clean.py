"""`dreamer clean` removes what no study of the store uses, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.store_users import users_of
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.running.options import Options, Until
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import run_study
from dreamer_study.flows.study.loading import load_study
from tests.flows.by_hand import JobsByHand, study_file
from tests.flows.small_study import PROJECT

pytestmark = pytest.mark.usefixtures("light_reports")


@pytest.fixture
def store(tiny_store: Path, tmp_path: Path) -> Path:
    """A store with the data of all studies here, and an output that none of them uses."""
    shutil.copytree(tiny_store, tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "studies", ignore_errors=True)
    left = tmp_path / "store" / "tokens" / "0123456789abcdef"
    left.mkdir()
    (left / "data").write_text("0123456789")
    return tmp_path / "store"


def study(store: Path, name: str, seed: int, until: Until = "evaluate") -> tuple[Path, Plan]:
    """A study that has been run so far, by hand."""
    places = {"name": name, "root": str(store.parent / name), "store": str(store)}
    settings = {
        "models": {"variants": ["LA"]},
        "training": {"seeds": [seed]},
        "evaluation": {"introspect": False},
    }
    path = study_file(store.parent, **places, **settings)
    plan = Plan(load_study(path))
    run_study(plan, JobsByHand(), Steps(), Options(until=until))
    return path, plan


def used(plan: Plan) -> list[Path]:
    return [plan.store.root / name for name in plan.names()]


def left_over(store: Path) -> Path:
    return store / "tokens" / "0123456789abcdef"


@pytest.mark.slow
def test_only_what_nobody_uses_is_removed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (first, one), (_, other) = study(store, "first", 0), study(store, "second", 1)
    assert {user.folder for user in users_of(store)} == {one.study.folder, other.study.folder}
    assert main(["clean", str(first), "--yes"]) == 0
    out = capsys.readouterr().out
    (shared,) = [line for line in out.splitlines() if line.startswith("world")]
    assert {word.strip(",") for word in shared.split()[-2:]} == {
        str(one.study.folder),
        str(other.study.folder),
    }
    assert "removed 1 output, " in out
    assert not left_over(store).exists()
    assert all(path.exists() for plan in (one, other) for path in used(plan))
    assert main(["clean", str(first), "--yes"]) == 0
    assert "every output is in use" in capsys.readouterr().out

    of_the_second = set(used(other)) - set(used(one))
    shutil.rmtree(other.study.folder)
    _, again = study(store, "first", 5)
    of_the_earlier = set(used(one)) - set(used(again))
    assert main(["clean", str(first), "--yes"]) == 0
    assert all(path.exists() for path in used(again))
    for free in (of_the_second, of_the_earlier):
        assert {path.parent.name for path in free} == {"runs", "evaluations"}
        assert not any(path.exists() for path in free)


@pytest.mark.slow
def test_nothing_is_removed_without_a_yes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = study(store, "first", 0)
    monkeypatch.setattr("builtins.input", lambda question: "no")
    assert main(["clean", str(first)]) == 1
    assert left_over(store).exists()
    monkeypatch.setattr("builtins.input", lambda question: "y")
    assert main(["clean", str(first)]) == 0
    assert not left_over(store).exists()


@pytest.mark.slow
def test_nothing_is_removed_where_a_study_begins_while_the_question_waits(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _ = study(store, "first", 0)
    monkeypatch.setattr(
        "builtins.input", lambda question: study(store, "second", 1, "train") and "y"
    )
    assert main(["clean", str(first)]) == 2
    assert "has changed meanwhile, as a study has begun" in capsys.readouterr().err
    assert left_over(store).exists()


@pytest.mark.slow
def test_nothing_is_removed_while_a_study_is_unfinished_or_runs(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _ = study(store, "first", 0)
    _, second = study(store, "second", 1, "train")
    assert main(["clean", str(first), "--yes"]) == 0
    assert (
        f"unfinished studies: finish them, or remove their folders: {second.study.folder}"
        in capsys.readouterr().out
    )
    assert left_over(store).exists()
    study(store, "second", 1)
    with only_run(second.study):
        command = [
            sys.executable,
            "-m",
            "dreamer_study.flows.commands.cli",
            "clean",
            str(first),
            "--yes",
        ]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "second is running already" in done.stderr
    assert f"`dreamer status STUDY --root {second.study.folder}` shows how far" in done.stderr
    assert left_over(store).exists()
