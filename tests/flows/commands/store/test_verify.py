"""`dreamer verify` finds every kind of damage; `--repair` removes as little as the next run can make again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flows.commands.cli import main
from flows.commands.store.verify import find_damage
from flows.running.single import only_run
from flows.stages.ingest import ingest_study
from flows.stages.prepare import prepare_data
from flows.study.loading import load_study
from pipeline.storage.store import Output, Store
from sql.results import query
from tests.flows.small_study import TINY


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study whose data are prepared, with a training of two seeds as far as files go."""
    root = tmp_path_factory.mktemp("verify") / "run"
    study = load_study(TINY, root=root)
    ingest_study(study, prepare_data(study, Store(study.store_folder)))
    Store(study.store_folder).build("training", 1, {}, [], write_seeds, resumes=True)
    return root


def write_seeds(folder: Path) -> dict[str, list[int]]:
    for seed in ("seed0", "seed1"):
        (folder / seed / "checkpoints").mkdir(parents=True, exist_ok=True)
        (folder / seed / "checkpoints" / "weights").write_text(seed)
    return {"chosen": [0, 1]}


@pytest.fixture
def root(prepared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "run"))


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


def test_what_is_damaged_is_named_removed_and_made_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = load_study(TINY, root=root)
    flip(one(root, "decontaminate", "*.parquet"))
    one(root, "tokens", "manifest.json").unlink()
    one(root, "tokenizer", "manifest.json").write_text("{}")
    study.database.write_bytes(study.database.read_bytes()[:5000])
    command = ["verify", str(TINY), "--root", str(root)]
    assert main(command) == 1
    said = capsys.readouterr().out
    for words in ("has other content", "is missing", "is damaged", "results.duckdb", "--repair` removes"):
        assert words in said
    assert main([*command, "--repair"]) == 0
    assert main(command) == 0
    ingest_study(study, prepare_data(study, Store(study.store_folder)))
    assert len(query(study.database, "from studies")) == 1
    assert find_damage(study.store_folder)[1] == []


def test_only_the_damaged_seed_is_trained_again(root: Path) -> None:
    flip(one(root, "training", "seed1/checkpoints/weights"))
    assert main(["verify", str(TINY), "--root", str(root), "--repair"]) == 0
    (left,) = root.glob("store/training/*")
    assert left.name.endswith(".partial")
    assert [path.name for path in left.iterdir()] == ["seed0"]
    again: Output = Store(root / "store").build("training", 1, {}, [], write_seeds, resumes=True)
    assert (again.path / "seed1" / "checkpoints" / "weights").read_text() == "seed1"


def test_status_names_a_damaged_manifest(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(TINY), "--root", str(root)]) == 0
    assert "is damaged" not in capsys.readouterr().out
    one(root, "tokenizer", "manifest.json").write_text('{"key": "other"}')
    assert main(["status", str(TINY), "--root", str(root)]) == 0
    assert "manifest.json is damaged; `dreamer verify" in capsys.readouterr().out
    with only_run(load_study(TINY, root=root)):
        main(["status", str(TINY), "--root", str(root)])
    assert ": running (process " in capsys.readouterr().out
