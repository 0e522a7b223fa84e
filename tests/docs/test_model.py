"""docs/model.md: the lines that load a checkpoint and generate an answer, with the folder that a command prints."""

import re
from pathlib import Path

import pytest
import torch

from flows.commands.cli import main
from flows.stages.outputs import Run, Trained, write_returned
from flows.study.loading import load_study
from tests.flows.small_study import TINY
from tests.model.evaluation.evaluation_world import save_small_model, write_tokenizer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "model.md").read_text(encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A study of two seeds with two checkpoints each, as far as these folders go."""
    study = load_study(TINY, root=tmp_path)
    for seed in (0, 1):
        for tokens in (500, 1000):
            save_small_model(study.store_folder / f"training/key/seed{seed}/checkpoints/{tokens:015d}", seed)
    write_tokenizer(study.store_folder / "training" / "tokenizer")
    runs = tuple(Run(f"r{seed}", "LA-2", seed, "complete", "training/key", Path()) for seed in (0, 1))
    write_returned(study, Trained(study.study_id, study.store_folder, "packed", runs))
    return tmp_path


def folders(capsys: pytest.CaptureFixture[str], root: Path, *options: str) -> list[str]:
    capsys.readouterr()
    assert main(["checkpoints", str(TINY), "--root", str(root), *options]) == 0
    return [line.split()[-1] for line in capsys.readouterr().out.splitlines()]


def test_the_lines_generate_an_answer(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder,) = folders(capsys, root, "--model", "LA-2", "--seed", "1")
    assert folder == str(root / "store/training/key/seed1/checkpoints/000000000001000")
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    made: dict[str, object] = {}
    exec(re.sub(r'folder = ".*"', f"folder = {folder!r}", program), made)
    answer, likelihoods = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert answer
    assert len(re.findall(r"-[\d.]+, (?:True|False)", likelihoods)) == 2
    assert made["network"](torch.tensor([[1, 2, 3]])).shape == (1, 3, 320)


def test_every_checkpoint_is_listed_when_asked_for(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(folders(capsys, root)) == 2
    assert len(folders(capsys, root, "--all")) == 4
    assert main(["checkpoints", str(TINY), "--root", str(root), "--seed", "9"]) == 2
