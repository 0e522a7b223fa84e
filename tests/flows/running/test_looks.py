"""Folders that trainers rename while somebody looks at them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows.stages import checks
from flows.stages.models import plan_models
from flows.stages.states import _lives, _newest_runs
from flows.stages.usage import stored
from flows.study.loading import load_study
from pipeline.errors import InputError
from tests.flows.small_study import TINY


@pytest.fixture
def vanishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a run whose files are listed, and are gone when they are looked at."""
    run = tmp_path / "training" / "key.partial" / "seed0"
    run.mkdir(parents=True)
    for name in ("run.json", "progress.json"):
        (run / name).write_text('{"run_id": "a"}')

    def gone(look: Callable[..., object]) -> Callable[..., object]:
        def fail(path: object, **options: object) -> object:
            if str(path).endswith(".json"):
                raise FileNotFoundError(2, "No such file or directory", str(path))
            return look(path, **options)

        return fail

    # A moment before.
    monkeypatch.setattr(pathlib.Path, "exists", lambda path: True)
    monkeypatch.setattr(pathlib.Path, "is_file", lambda path: path.suffix == ".json")
    monkeypatch.setattr(pathlib.Path, "stat", gone(pathlib.Path.stat))
    monkeypatch.setattr(os, "stat", gone(os.stat))
    return tmp_path


def test_the_size_of_a_store_is_counted_without_them(vanishing: Path) -> None:
    (output,) = stored(vanishing, [])
    assert (output.stage, output.size) == ("training", 0)


def test_a_check_of_the_disk_goes_on(vanishing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load_study(TINY).model_copy(update={"store": vanishing})
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
    with pytest.raises(InputError, match="of checkpoints and states"):
        checks._check_disk(study, plan_models(study, 300))


def test_the_states_of_runs_are_those_without_them(vanishing: Path) -> None:
    assert _newest_runs(vanishing) == {}
    assert not _lives(vanishing / "training" / "key.partial" / "seed0" / "progress.json", 0.0)
