"""Log studies to experiment trackers, and compare what each tracker has stored with the results
file."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dreamer_study.flows.plan.preflight import check_study
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import run_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import Busy, ask, query
from tests.flows.by_hand import ONE, JobsByHand, Planned, tiny

pytestmark = pytest.mark.usefixtures("light_reports")
EVALUATED = Options(until="evaluate")

Point = tuple[str, int, str, float]  # run, training tokens, name, value

POINTS = """
    select run_id, tokens, 'training/loss' as name, loss as value from steps
    union all select run_id, tokens, 'training/learning_rate', learning_rate from steps
    union all select run_id, tokens, 'training/gradient_norm', gradient_norm from steps
    union all select run_id, tokens, task || '/accuracy', accuracy from token_accuracy where study_id = $study
    union all select run_id, tokens, task || '/loss', loss from token_loss where study_id = $study
"""


def results(plan: Plan) -> list[Point]:
    return sorted(
        query(plan.study.database, POINTS, {"study": plan.study.study_id}).itertuples(
            index=False, name=None
        )
    )


def of_tensorboard(folder: Path) -> Iterator[Point]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for of_run in (folder / "tensorboard").iterdir():
        events = EventAccumulator(str(of_run)).Reload()
        for name in events.Tags()["tensors"]:
            yield from (
                (of_run.name, one.step, name, one.tensor_proto.float_val[0])
                for one in events.Tensors(name)
            )


def of_trackio(folder: Path) -> Iterator[Point]:
    asked = [
        "query",
        "project",
        "--project",
        "study",
        "--sql",
        "select run_name, metrics from metrics",
        "--json",
    ]
    command = [str(Path(sys.executable).with_name("trackio")), *asked]
    for row in json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"]:
        yield from _points(row["run_name"], json.loads(row["metrics"]))


def of_wandb(folder: Path) -> Iterator[Point]:
    from wandb.proto.wandb_internal_pb2 import Record

    for path in (folder / "wandb").glob("offline-run-*/run-*.wandb"):
        for record in map(Record.FromString, _wandb_records(path.read_bytes())):
            values = {
                (one.key or one.nested_key[0]): json.loads(one.value_json)
                for one in record.history.item
            }
            yield from _points(
                path.stem.removeprefix("run-"),
                {key: values[key] for key in values if key[0] != "_"},
            )


def _points(run_id: str, values: dict[str, Any]) -> list[Point]:
    return [
        (run_id, values["tokens"], name, value)
        for name, value in values.items()
        if name != "tokens"
    ]


def _wandb_records(content: bytes) -> Iterator[bytes]:
    """Read the records of a W&B file: each part of a record, in blocks of 32 KiB, follows a header
    of seven bytes."""
    place, record = 7, b""
    while place + 7 <= len(content):
        if (left := -place % 32768) and left < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or its last part
            yield record
            record = b""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tracker", "read"),
    [("tensorboard", of_tensorboard), ("trackio", of_trackio), ("wandb", of_wandb)],
)
def test_every_point_is_logged_once_also_of_a_study_that_goes_on(
    prepared: Planned,
    monkeypatch: pytest.MonkeyPatch,
    tracker: str,
    read: Callable[[Path], Iterator[Point]],
) -> None:
    plan = prepared(name="study", tracking=tracker, **ONE)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(plan.study.folder / "trackio"))
    pytest.importorskip(tracker)
    run_study(plan, JobsByHand(), Steps(), EVALUATED)
    further = prepared(name="study", tracking=tracker, training={"seeds": [0, 1]}, **ONE)
    run_study(further, JobsByHand(), Steps(), EVALUATED)
    found, wanted = sorted(read(plan.study.folder)), results(further)
    assert [key for *key, _ in found] == [key for *key, _ in wanted]
    assert [value for *_, value in found] == pytest.approx(
        [value for *_, value in wanted], rel=1e-6
    )


@pytest.mark.slow
def test_a_tracker_that_fails_is_named_once_and_the_study_goes_on(
    prepared: Planned, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard")
    plan = prepared(tracking="tensorboard", **ONE)
    plan.study.folder.mkdir(exist_ok=True)
    (plan.study.folder / "tensorboard").touch()  # where the tracker wants a folder
    assert run_study(plan, JobsByHand(), Steps()).exists()
    (line,) = (line for line in capfd.readouterr().err.splitlines() if "tensorboard" in line)
    assert line.startswith("tensorboard has failed and gets nothing more, the study continues: ")


@pytest.mark.slow
def test_a_results_file_in_use_is_waited_for(
    prepared: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    plan, tries = prepared(tracking="tensorboard", **ONE), []

    def ask_again(*arguments: Any, **parameters: Any) -> pd.DataFrame:
        tries.append(arguments)
        if len(tries) % 2:
            raise Busy("in use")
        return ask(*arguments, **parameters)

    monkeypatch.setattr("dreamer_study.flows.running.trackers.ask", ask_again)
    run_study(plan, JobsByHand(), Steps(), EVALUATED)
    assert len(list(of_tensorboard(plan.study.folder))) == len(results(plan))


def test_a_tracker_that_is_not_installed_is_told_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="wandb is not installed"):
        check_study(tiny(tmp_path, tracking="wandb"))
    check_study(tiny(tmp_path))


WANDB_SETTINGS = """
from types import SimpleNamespace
from dreamer_study.flows.running.trackers import Tracker

study = SimpleNamespace(tracking="wandb", folder=__import__("pathlib").Path("."))
Tracker(SimpleNamespace(study=study))
import wandb
print(wandb.setup().settings.base_url)
"""


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["wandb", ".wandb"])
def test_the_current_folder_does_not_say_where_the_key_goes(tmp_path: Path, folder: str) -> None:
    pytest.importorskip("wandb")
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "settings").write_text("[default]\nbase_url = http://127.0.0.1:9\n")
    program = [sys.executable, "-P", "-c", WANDB_SETTINGS]
    ended = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "127.0.0.1" not in ended.stdout + ended.stderr
    assert "tracking: https://" in ended.stderr
