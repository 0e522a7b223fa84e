"""`dreamer clean` removes what no study of the store uses, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flows.commands.cli import main
from flows.running.single import only_run
from flows.stages.outputs import Evaluated, Prepared, Run, Trained, write_returned
from flows.stages.prepare import prepare_data
from flows.stages.usage import USERS, users_of
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.store import Output, Store
from tests.flows.small_study import PROJECT, TINY


def write(folder: Path) -> None:
    (folder / "data").write_text("0123456789")


def finished_study(tmp_path: Path, name: str) -> tuple[Path, Study, list[Output]]:
    """A study as its records tell it, with world, tokens, a training and an evaluation; the world is shared."""
    content = yaml.safe_load(TINY.read_text())
    content |= {"name": name, "root": str(tmp_path / name), "store": str(tmp_path / "store")}
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    study = load_study(path)
    store = Store(study.store_folder)
    world = store.build("world", 1, {}, [], write)
    tokens = store.build("tokens", 1, {"of": name}, [world], write)
    trained = store.build("training", 1, {"of": name}, [tokens], write)
    evaluated = store.build("evaluation", 1, {"of": name}, [trained], write)
    run = Run(name, "LA-2", 0, "complete", trained.name, trained.path / "seed0")
    write_returned(study, Prepared(study.study_id, store.root, (tokens.name,)))
    write_returned(study, Trained(study.study_id, store.root, tokens.key, (run,)))
    write_returned(study, Evaluated(study.study_id, store.root, {name: evaluated.name}))
    return path, study, [world, tokens, trained, evaluated]


def leave_over(tmp_path: Path) -> Output:
    return Store(tmp_path / "store").build("tokens", 1, {"of": "earlier settings"}, [], write)


def test_only_what_nobody_uses_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, _, used = finished_study(tmp_path, "first")
    _, _, more = finished_study(tmp_path, "second")
    old = leave_over(tmp_path)
    assert users_of(tmp_path / "store") == [tmp_path / "first", tmp_path / "second"]
    assert main(["clean", str(first), "--yes"]) == 0
    out = capsys.readouterr().out
    (shared,) = [line for line in out.splitlines() if line.startswith("world")]
    assert shared.split()[-2:] == [f"{tmp_path / 'first'},", str(tmp_path / "second")]
    assert "removed 1 outputs" in out
    assert not old.path.exists()
    assert all(output.path.exists() for output in [*used, *more])
    assert main(["clean", str(first), "--yes"]) == 0
    assert "every output is in use" in capsys.readouterr().out


def test_the_outputs_of_a_study_that_was_removed_are_free(tmp_path: Path) -> None:
    first, _, used = finished_study(tmp_path, "first")
    _, second, more = finished_study(tmp_path, "second")
    for path in second.folder.iterdir():
        path.unlink()
    second.folder.rmdir()
    assert main(["clean", str(first), "--yes"]) == 0
    assert all(output.path.exists() for output in used)
    assert [output.path.exists() for output in more] == [True, False, False, False]  # the world is used by the first


def test_nothing_is_removed_without_a_yes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = finished_study(tmp_path, "first")
    old = leave_over(tmp_path)
    monkeypatch.setattr("builtins.input", lambda question: "no")
    assert main(["clean", str(first)]) == 1
    assert old.path.exists()
    monkeypatch.setattr("builtins.input", lambda question: "y")
    assert main(["clean", str(first)]) == 0
    assert not old.path.exists()


def test_nothing_is_removed_while_a_study_is_unfinished_or_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *_ = finished_study(tmp_path, "first")
    _, second, _ = finished_study(tmp_path, "second")
    old = leave_over(tmp_path)
    evaluated = (second.folder / "evaluated.json").read_text()
    (second.folder / "evaluated.json").unlink()
    assert main(["clean", str(first), "--yes"]) == 0
    assert f"unfinished studies: finish them, or remove their folders: {second.folder}" in capsys.readouterr().out
    assert old.path.exists()
    (second.folder / "evaluated.json").write_text(evaluated)
    with only_run(second):
        command = [sys.executable, "-m", "flows.commands.cli", "clean", str(first), "--yes"]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "second is running already" in done.stderr
    assert old.path.exists()


def test_a_study_is_known_to_its_store_before_its_first_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *_ = finished_study(tmp_path, "first")
    old = leave_over(tmp_path)
    content = {**yaml.safe_load(TINY.read_text()), "root": str(tmp_path / "second"), "store": str(tmp_path / "store")}
    second = load_study(content)

    def stop(*_: object, **__: object) -> None:
        raise InputError("stopped in its first stage")

    monkeypatch.setattr("flows.stages.prepare.build_stage", stop)
    with only_run(second), pytest.raises(InputError, match="first stage"):
        prepare_data(second, Store(second.store_folder))
    assert main(["clean", str(first), "--yes"]) == 0
    assert f"unfinished studies: finish them, or remove their folders: {second.folder}" in capsys.readouterr().out
    assert old.path.exists()


def test_a_shared_store_that_does_not_know_its_studies_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *_ = finished_study(tmp_path, "first")
    old = leave_over(tmp_path)
    shutil.rmtree(tmp_path / "store" / USERS)
    assert main(["clean", str(first), "--yes"]) == 2
    assert "run each study of this store once first" in capsys.readouterr().err
    assert old.path.exists()
