"""One process does job after job, each to the bits of a process of its own, and ends as such a
process does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.model.checkpoints.models import newest_state
from dreamer_study.model.processes import STOPPING
from dreamer_study.model.training.step_log import read_record
from dreamer_study.pipeline.worlds.tasks import world_specifications
from tests.model.evaluation.evaluation_world import (
    evaluated,
    rows,
    write_job,
    write_place,
)
from tests.model.packed_folder import write_run
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow
# of a state, by a clock; the log has seconds
MEASURED = ("seconds", "log_bytes", "log_sum", "tokens_per_second")
TABLES = ("evaluations", "items", "evaluation_versions")
LA = {"recurrent": False, "depth_attention": False}


class Process:
    """Run `python -m dreamer_study.model.worker`."""

    def __init__(self, program: str = "dreamer_study.model.train") -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "dreamer_study.model.worker", program, "somewhere"]
        self.popen = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def send(self, arguments: Any, log: Path) -> None:
        self.popen.stdin.write(json.dumps({"arguments": arguments, "log": str(log)}) + "\n")
        self.popen.stdin.flush()

    def train(self, folder: Path, *options: str) -> str:
        self.send([str(folder), "--verbose", *options], folder.with_suffix(".log"))
        return self.popen.stdout.readline()

    def end(self) -> tuple[int, str, str]:
        """Close the standard input; return the exit status and what standard output and error have
        had since."""
        out, err = self.popen.communicate(timeout=PATIENCE_SECONDS)
        return self.popen.returncode, out, err


@pytest.fixture
def process() -> Iterator[Process]:
    started = Process()
    yield started
    started.popen.kill()
    started.popen.communicate()


def content(folder: Path) -> dict[str, Any]:
    """Read what a training has made, but for what a clock has measured."""
    state = newest_state(folder / "state")
    files = sorted(folder.glob("checkpoints/*/*.safetensors"))
    assert files
    return {
        "steps": read_record(folder)[1].drop_columns(["seconds"]),
        "state": {name: tensor.numpy().tobytes() for name, tensor in state.tensors.items()},
        "values": {name: value for name, value in state.values.items() if name not in MEASURED},
        "weights": {str(file.relative_to(folder)): file.read_bytes() for file in files},
    }


def test_runs_in_one_process_are_those_of_processes_of_their_own(
    tmp_path: Path, process: Process
) -> None:
    """Train LA and DR+DA in float32 and bfloat16, with recomputed activations, and one run stopped
    and continued."""
    kinds = {
        "la": {"model": LA},
        "recomputed halves": {
            "precision": "bfloat16",
            "checkpointing": True,
            "micro_batch_tokens": 32,
        },
        "dr+da": {},
    }
    alone, asked = (
        {
            kind: write_run(tmp_path, name=f"{kind}-{place}", **values)
            for kind, values in kinds.items()
        }
        for place in ("alone", "asked")
    )
    for folder in alone.values():
        subprocess.run([sys.executable, "-m", "dreamer_study.model.train", folder], check=True)
    assert process.train(asked["dr+da"], "--stop-at", "800") == "0\n"
    assert [process.train(folder) for folder in asked.values()] == ["0\n"] * len(kinds)
    assert process.end() == (0, "", "")
    for kind, folder in asked.items():
        assert content(folder) == content(alone[kind]), kind
        last = folder.with_suffix(".log").read_text().splitlines()[-1]
        assert ": complete, " in last, "each training writes to its own log"


def test_evaluations_in_one_process_are_those_of_processes_of_their_own(tmp_path: Path) -> None:
    place, process = write_place(tmp_path / "place"), Process("dreamer_study.model.evaluate")
    tasks = world_specifications(place / "world")
    asked = [write_job(place, f"asked-{number}", tasks=tasks) for number in range(2)]
    for path in (*asked, asked[0]):
        process.send([str(path)], path.with_suffix(".log"))
        assert process.popen.stdout.readline() == "0\n"
    process.send([str(place / "nowhere.json")], place / "nowhere.log")
    assert process.end() == (2, "", "")
    assert (
        place / "nowhere.log"
    ).read_text() == f"bad input: {place / 'nowhere.json'}: there is no such job file\n"
    alone = evaluated(write_job(place, "alone", tasks=tasks))
    for path in asked:
        lines = path.with_suffix(".log").read_text().splitlines()
        assert [line.split(":")[0] for line in lines] == ["run 500", "run 1,000"]
        for folder, other in zip(evaluated(path), alone, strict=True):
            assert [rows(folder, name) for name in TABLES] == [rows(other, name) for name in TABLES]


def test_what_nobody_expects_is_a_traceback_in_the_log_of_the_run(
    tmp_path: Path, process: Process
) -> None:
    process.send([1], tmp_path / "run.log")
    assert process.end() == (1, "", "")
    said = (tmp_path / "run.log").read_text()
    assert said.startswith("Traceback")
    assert "TypeError" in said


def test_the_log_of_a_finished_training_stays_as_it_is(tmp_path: Path, process: Process) -> None:
    folder = write_run(tmp_path)
    assert process.train(folder) == "0\n"
    log = folder.with_suffix(".log")
    kept = log.read_bytes()
    process.send([str(folder)], tmp_path / "moved away" / "run.log")
    assert process.end()[0] == 1
    assert kept
    assert log.read_bytes() == kept


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_amid_a_training_saves_the_state(
    tmp_path: Path, process: Process, number: signal.Signals
) -> None:
    assert process.train(write_run(tmp_path, name="first")) == "0\n"
    folder = write_run(tmp_path, save_every_seconds=1000, tokens=100_000_000, checkpoints=[])
    process.send([str(folder)], tmp_path / "run.log")
    progress = folder / "progress.json"
    until(lambda: progress.exists() and json.loads(progress.read_text())["tokens"], process.popen)
    process.popen.send_signal(number)
    assert process.end() == (128 + number, "", "")
    assert newest_state(folder / "state").values["step"]


def test_sigterm_between_trainings_ends_the_process(tmp_path: Path, process: Process) -> None:
    assert process.train(write_run(tmp_path)) == "0\n"
    process.popen.send_signal(signal.SIGTERM)
    assert process.popen.wait(PATIENCE_SECONDS) == -signal.SIGTERM
