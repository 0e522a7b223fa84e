"""Studies in Python: loaded, planned and run, with what is told meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml
from pydantic import ValidationError

import dreamer_study
from dreamer_study import InputError, Note, Progress, Study
from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.jobs import Failed
from dreamer_study.flows.study.loading import load_study
from tests.flows.prepared import with_data
from tests.flows.small_study import TINY, small_study


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    """The keys of a small study, as a script has them."""
    return yaml.safe_load(small_study(tmp_path).read_text())


def test_a_study_of_python_is_that_of_the_file(values: dict[str, Any], tmp_path: Path) -> None:
    built = Study(**values)
    of_file = load_study(str(tmp_path / "small.yaml"))
    assert built.study_id == of_file.study_id
    assert built.model_dump() == of_file.model_dump()
    for given in (built, values, tmp_path / "small.yaml", str(tmp_path / "small.yaml")):
        assert dreamer_study.load(given).study_id == of_file.study_id


def test_where_a_study_writes_is_no_part_of_its_key(values: dict[str, Any], tmp_path: Path) -> None:
    built = Study(**values)
    moved = dreamer_study.load(built, root=tmp_path / "there", mirror=tmp_path)
    assert moved.folder == tmp_path / "there"
    assert moved.mirror == tmp_path
    assert moved.study_id == built.study_id
    assert built.folder != moved.folder


def test_wrong_values_are_refused_by_their_place(values: dict[str, Any]) -> None:
    values["training"]["token"] = values["training"].pop("tokens")
    with pytest.raises(InputError, match=r"study: training.*tokens"):
        dreamer_study.load(values)
    with pytest.raises(ValidationError):
        Study(**values)
    with pytest.raises(InputError, match="study 'dmeo' is neither a preset"):
        dreamer_study.load("dmeo")


def test_a_plan_is_numbers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    estimate = dreamer_study.plan(TINY, root=tmp_path, tflops=0.001, price=2.0)
    table = estimate.table()
    needs = estimate.needs()
    assert list(table["variant"]) == [one.name for one in estimate.study.models.variants]
    assert table["flops_to_baseline"].iloc[0] == 0
    assert (table["tokens_per_second"] > 0).all()
    assert needs["tokens"] == 24_000
    assert needs["cost"] == pytest.approx(2 * needs["device_hours"])  # type: ignore[operator]
    assert {type(value) for value in needs.values()} <= {int, float, str, type(None)}
    json.dumps(needs)
    assert repr(estimate).startswith(f"Estimate({estimate.study.study_id}: tokens=24000, ")
    assert "<table" in estimate._repr_html_()
    assert not (tmp_path / "store").exists()
    assert capfd.readouterr() == ("", "")


def test_a_plan_without_a_rate_has_no_time(tmp_path: Path) -> None:
    estimate = dreamer_study.plan(TINY, root=tmp_path, gpus=2, price=1.0)
    needs = estimate.needs()
    assert needs.pop("detectable_ratio") is None  # of one seed that a race leaves
    unknown = {name for name, value in needs.items() if value is None}
    times = {"devices", "training_seconds", "evaluation_seconds", "device_hours", "cost"}
    assert unknown == times


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"gpus": 0}, "--gpus is 0"),
        ({"tflops": -1.0}, "--tflops is -1"),
        ({"price": float("nan")}, "--price is nan"),
    ],
)
def test_numbers_without_sense_are_refused(
    tmp_path: Path, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        dreamer_study.plan(TINY, root=tmp_path, **asked)


@pytest.mark.slow
def test_data_are_prepared_and_all_is_told(
    values: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    events: list[object] = []
    study = Study(**values, root=tmp_path / "run")
    found = dreamer_study.run(study, until="prepare", on_event=events.append)
    assert {type(event) for event in events} <= {Progress, Note}
    work = [event for event in events if isinstance(event, Progress)]
    assert {event.fraction for event in work if event.work == "world"} >= {1.0}
    assert all(0 <= event.fraction <= 1 for event in work)
    *_, end = [event.text for event in events if isinstance(event, Note)]
    assert end.startswith(f"prepare: done; `dreamer run {tmp_path}/run/study.yaml --root ")
    assert capfd.readouterr() == ("", "")
    with pytest.raises(InputError, match="no such results file; run the study first"):
        _ = found.answer
    # the command finds the study by the file that was written
    assert load_study(str(tmp_path / "run" / "study.yaml")).study_id == found.study_id


@pytest.mark.slow
def test_without_a_function_lines_go_to_the_standard_error(
    values: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dreamer_study.run(values, root=tmp_path / "run", until="prepare")
    out, err = capfd.readouterr()
    assert out == ""
    assert "tokens" in err
    assert "prepare: done" in err


@pytest.mark.slow
def test_an_error_of_the_function_ends_the_run(values: dict[str, Any], tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def refuse(event: object) -> None:
        raise Enough

    with pytest.raises(Enough):
        dreamer_study.run(values, root=tmp_path / "run", until="prepare", on_event=refuse)
    # and the study is free for another run
    dreamer_study.run(values, root=tmp_path / "run", until="prepare", on_event=lambda event: None)


def test_bad_input_is_an_error_of_python(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"until='trian': .*did you mean 'train'"):
        dreamer_study.run(values, root=tmp_path / "run", until="trian")  # type: ignore[arg-type]
    values["models"]["variants"] = [{"name": "Mine", "module": "mine.py:Mine"}]
    (tmp_path / "mine.py").write_text("raise SystemExit")
    with pytest.raises(InputError):
        dreamer_study.run(values, root=tmp_path / "run", on_event=lambda event: None)


@pytest.mark.slow
def test_a_study_is_run_and_its_model_is_loaded(
    values: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with_data(tmp_path / "run")
    events: list[object] = []
    found = dreamer_study.run(values, root=tmp_path / "run", on_event=events.append)
    assert "There is no answer" in found.answer
    trained = [event.fraction for event in events if getattr(event, "work", "").startswith("train")]
    assert trained[-1] == 1.0
    (checkpoint,) = found.checkpoints().to_dict("records")
    model = dreamer_study.load_model(checkpoint["folder"])
    assert not model.training
    tokens = torch.tensor([model.tokenizer.encode("Question: 1 + 1?\nAnswer:")])
    logits = model(tokens)
    assert logits.shape == (1, tokens.shape[1], model.config.vocabulary_size)
    assert model.tokenizer.decode(tokens[0].tolist()) == "Question: 1 + 1?\nAnswer:"
    listed = dreamer_study.results(tmp_path / "run").checkpoints()
    pd.testing.assert_frame_equal(listed, found.checkpoints())
    # a study that is complete says so, and does nothing
    events.clear()
    assert dreamer_study.run(values, root=tmp_path / "run", on_event=events.append) == found
    assert events[0] == Note(f"Nothing to do: {found.study_id} is complete.")
    assert [event for event in events if isinstance(event, Progress)] == []
    assert capfd.readouterr().out == ""
    moved = tmp_path / "model"
    Path(checkpoint["folder"]).rename(moved)
    with pytest.raises(InputError, match="no tokenizer"):
        dreamer_study.load_model(moved)


@pytest.mark.slow
def test_a_study_is_shown_in_prefect_where_that_is_asked_for(
    values: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with_data(tmp_path / "run")
    events: list[object] = []
    dreamer_study.run(
        values, root=tmp_path / "run", until="prepare", prefect=True, on_event=events.append
    )
    said = [event.text for event in events if isinstance(event, Note)]
    assert [text for text in said if text.startswith("Prefect: http")], said
    assert (tmp_path / "run" / ".prefect").exists()
    assert capfd.readouterr().out == ""


SCRIPT = """
import sys
import dreamer_study
print("begun")
dreamer_study.run(sys.argv[1], root=sys.argv[2], until="prepare")
"""


@pytest.mark.slow
def test_a_script_needs_no_guard(values: dict[str, Any], tmp_path: Path) -> None:
    """The data stages start processes, which Python lets import a script again."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tmp_path / "small.yaml"), str(tmp_path / "run")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "begun\n"


def test_a_failed_training_is_an_error_of_python(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise Failed("train LA-2 seed 0: killed")

    monkeypatch.setattr("dreamer_study.flows.running.beginning.run_study", fails)
    with pytest.raises(dreamer_study.Failed, match="killed"):
        dreamer_study.run(values, root=tmp_path / "run", on_event=lambda event: None)


@pytest.mark.slow
def test_the_command_and_python_are_of_one_study(values: dict[str, Any], tmp_path: Path) -> None:
    study = str(tmp_path / "small.yaml")
    assert (
        main(["run", study, "--root", str(tmp_path / "run"), "--plain", "--until", "prepare"]) == 0
    )
    events: list[object] = []
    dreamer_study.run(values, root=tmp_path / "run", until="prepare", on_event=events.append)
    built = {event.work for event in events if isinstance(event, Progress) and event.fraction < 1}
    assert {"world", "tokens", "deduplicate"} & built == set()  # the store holds them
