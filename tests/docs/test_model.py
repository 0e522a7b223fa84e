"""docs/model.md: the lines that load a checkpoint and generate an answer, with the folder that a command prints."""

import re
from pathlib import Path

import pytest
import torch

from flows.commands.cli import main
from flows.plan import Plan
from flows.prepare import prepare_data
from flows.run import write_run
from flows.study.loading import load_study
from tests.flows.small_study import small_study
from tests.model.evaluation.evaluation_world import save_small_model

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "model.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A study of two seeds with two checkpoints each, whose data are prepared; its models were not trained."""
    folder = tmp_path_factory.mktemp("study")
    path = small_study(folder, seeds=[0, 1], checkpoints=2)
    plan = Plan(load_study(path, root=folder / "run"))
    prepare_data(plan, lambda kind, name, body: body())
    for run in plan.runs:
        write_run(plan, run)
        for point in run.points:
            vocabulary = run.model.config.vocabulary_size
            save_small_model(run.folder / f"checkpoints/{point:015d}", run.seed, vocabulary_size=vocabulary)
    return plan


def folders(capsys: pytest.CaptureFixture[str], plan: Plan, *options: str) -> list[str]:
    capsys.readouterr()
    assert main(["checkpoints", *plan.study.arguments.split(), *options]) == 0
    return [line.split(" tokens  ")[1].split("  (")[0] for line in capsys.readouterr().out.splitlines()]


def test_the_lines_generate_an_answer(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    (folder,) = folders(capsys, plan, "--model", "LA-2", "--seed", "1")
    assert folder == str(plan.runs[1].folder / "checkpoints/000000000003000")
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert re.search(r'folder = "runs/demo/store/runs/<run_id>/checkpoints/<tokens>"', program)
    made: dict[str, object] = {}
    exec(re.sub(r'folder = ".*"', f"folder = {folder!r}", program), made)
    answer, likelihoods = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert answer
    assert len(re.findall(r"-[\d.]+, (?:True|False)", likelihoods)) == 2
    vocabulary = plan.models[0].config.vocabulary_size
    assert made["network"](torch.tensor([[1, 2, 3]])).shape == (1, 3, vocabulary)


def test_every_checkpoint_is_listed_when_asked_for(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(folders(capsys, plan)) == 2
    assert len(folders(capsys, plan, "--all")) == 4
    assert main(["checkpoints", *plan.study.arguments.split(), "--seed", "9"]) == 2
