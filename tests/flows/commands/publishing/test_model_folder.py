"""`dreamer export --format hf`: which model it takes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from dreamer_study.flows.commands.cli import main
from tests.flows.prepared import with_data
from tests.flows.small_study import small_study

pytest.importorskip("transformers")
Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The arguments that name a study of two models and two seeds."""
    folder = tmp_path_factory.mktemp("studies")
    path = small_study(folder, seeds=[0, 1], checkpoints=1, screening=0)
    content = yaml.safe_load(path.read_text())
    content["models"]["variants"] = ["LA", "DR"]
    content["evaluation"]["bootstrap_replicates"] = 20
    content["workers"] = 1  # each further process imports torch anew
    path.write_text(yaml.safe_dump(content))
    study = [str(path), "--root", str(with_data(folder / "run"))]
    assert main(["run", *study, "--plain", "--until", "evaluate"]) == 0
    return study


@pytest.mark.slow
def test_a_model_is_written_with_its_card(trained: list[str], tmp_path: Path, capsys: Said) -> None:
    folder = tmp_path / "out"
    folder.mkdir()  # an empty one is no obstacle
    command = ["export", *trained, str(folder), "--format", "hf", "--model", "DR", "--seed", "1"]
    assert main(command) == 0
    assert f"from_pretrained('{folder}', trust_remote_code=True)" in capsys.readouterr().out
    assert json.loads((folder / "config.json").read_text())["recurrent"]
    card = (folder / "README.md").read_text()
    _, head, body = card.split("---\n", 2)
    assert yaml.safe_load(head)["library_name"] == "transformers"
    assert body.startswith("# DR seed 1\n")
    assert "Tokens that DR needs over those of LA" in body
    assert "| validation | loss |" in body
    assert "builtin/world" in body, "the data with licences"
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert main(command) == 2
    assert "is not empty, and nothing in it is overwritten" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seed", "0"], "--model: there are several, LA-2, DR-2; give one"),
        (["--model", "LA"], "--seed: there are several, 0, 1; give one"),
        (["--model", "GPT"], "--model is 'GPT', but the study has LA-2, DR-2"),
        (["--model", "LA", "--seed", "7"], "--seed is 7, but the study has 0, 1"),
        (["--model", "LA", "--seed", "0", "--tokens", "9"], "LA seed 0 has checkpoints at "),
    ],
)
def test_what_names_no_model_or_several_is_refused(
    options: list[str], said: str, trained: list[str], tmp_path: Path, capsys: Said
) -> None:
    folder = tmp_path / "out"
    assert main(["export", *trained, str(folder), "--format", "hf", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not folder.exists()


@pytest.mark.slow
def test_tables_have_no_model(trained: list[str], tmp_path: Path, capsys: Said) -> None:
    assert main(["export", *trained, str(tmp_path / "out"), "--model", "LA"]) == 2
    assert "--model chooses the model of --format hf" in capsys.readouterr().err
