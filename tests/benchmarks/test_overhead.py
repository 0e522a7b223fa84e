"""The overhead of a study: kinds of processes and functions, phases, and a whole tiny study."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.overhead import (
    DATA,
    EVALUATION,
    OTHER,
    SERVER,
    TRAINING,
    Look,
    Observer,
    descendants,
    idle_seconds,
    kind_of_process,
    kind_of_stack,
    observed,
    phases,
)
from model.training.ranks.launch import bound_command
from pipeline.storage.integrity import damage
from tests.flows.small_study import PROJECT, small_study
from tests.waiting import until


def test_processes_are_known_by_their_commands() -> None:
    modules = {"model.train": TRAINING, "model.evaluator": EVALUATION, "prefect": SERVER, "json.tool": DATA}
    for module, kind in modules.items():
        assert kind_of_process(" ".join(bound_command(module, "start"))) == kind


def test_a_thread_is_known_by_its_innermost_known_function(tmp_path: Path) -> None:
    assert kind_of_stack(sys._getframe()) == OTHER
    (tmp_path / "manifest.json").touch()
    (tmp_path / "part").write_text("abc")
    found = []

    def digest_of(_: Path) -> str:
        found.append(kind_of_stack(sys._getframe()))
        return ""

    damage(tmp_path, {"part": {"bytes": 3, "blake2b": ""}}, digest_of, thorough=True)
    assert found == ["hashing"]


def test_what_was_used_is_seen_whole_with_its_children() -> None:
    burn = "import time\nwhile time.process_time() < {}: pass\n"
    with observed() as observer:
        child = subprocess.Popen([sys.executable, "-c", burn.format(0.5) + "input()"], stdin=subprocess.PIPE)
        assert child.pid in dict(descendants(os.getpid()))
        exec(burn.format(time.process_time() + 0.5))
        until(lambda: observer.known.get(("process", child.pid), 0.0) >= 0.3, child)
        child.communicate(b"\n")
    spent = sum((look.spent for look in observer.looks), Counter())
    assert spent[DATA] >= 0.3
    assert spent["imports and checks"] >= 0.3


def test_what_children_use_after_their_last_look_is_counted_by_itself() -> None:
    observer = Observer()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.4: pass"], check=True)
    assert 0.35 <= observer.unseen() < 5  # the system counts in hundredths of a second
    assert Observer().unseen() == 0


def test_phases_are_told_by_the_work_that_is_seen() -> None:
    work = ["", "", DATA, "", TRAINING, "", EVALUATION, "", ""]
    looks = [Look(float(at), Counter(), frozenset({kind} - {""})) for at, kind in enumerate(work)]
    assert phases(looks) == ["start", "start", "data", "data", "models", "models", "models", "end", "end"]
    assert idle_seconds(looks) == {"start": 1, "data": 1, "models": 1, "end": 2}
    assert phases(looks[:4]) == ["start", "start", "data", "data"]
    assert phases(looks[:2]) == ["start", "start"]


@pytest.mark.slow
def test_a_whole_study(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.overhead", str(small_study(tmp_path)), str(tmp_path / "run")]
    said = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    table = {line[:32].strip(): line[32:].split() for line in said.splitlines()[said.splitlines().index(HEAD) :]}
    assert float(table["of children, seen by no look"][0]) > 0
    for kind, phase in ((TRAINING, 2), (EVALUATION, 2), (SERVER, 0), ("imports and checks", 0)):
        assert float(table[kind][phase]) > 0
    idle, clock = (list(map(float, table[name])) for name in ("of them without work", "seconds by the clock"))
    assert 0 < idle[0] <= clock[0]
    assert idle[4] == pytest.approx(sum(idle[:4]), abs=0.3)


HEAD = f"{'CPU seconds':<32}" + "".join(f"{name:>9}" for name in ("start", "data", "models", "end", "sum"))
