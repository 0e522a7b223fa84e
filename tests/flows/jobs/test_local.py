"""Processes stay for the next request, and what becomes of a request is told with its own log."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from flows.running.machines.staying import Staying
from flows.running.processes import Failed, Stopped, stop_all, stopped_on_exit
from pipeline.errors import InputError
from tests.waiting import PATIENCE_SECONDS, until

HELPER = """
import json, os, pathlib, signal, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if "status" in request:
        pathlib.Path(request["log"]).open("a").write("field x: must be 1\\n")
        sys.exit(request["status"])
    if "mark" in request:
        pathlib.Path(request["mark"]).write_text(str(os.getpid()))
        time.sleep(PATIENCE_SECONDS)
    if request.get("deaf"):
        told = []
        signal.signal(signal.SIGTERM, lambda *_: told.append(1))
        while not told:
            time.sleep(0.02)
    print(os.getpid(), os.environ.get("KIND"), *sys.argv[1:], flush=True)
""".replace("PATIENCE_SECONDS", str(PATIENCE_SECONDS))


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Staying]:
    (tmp_path / "helper_staying.py").write_text(HELPER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with closing(Staying("helper_staying", ["here"])) as processes, stopped_on_exit():
        yield processes


def test_a_process_answers_again_and_outlives_the_threads_that_ask(helper: Staying, tmp_path: Path) -> None:
    """Linux ends a child when the thread that has started the child ends."""
    answers: list[str] = []
    for number in range(3):
        log = tmp_path / f"{number}.log"
        thread = threading.Thread(target=lambda log=log: answers.append(helper.ask({}, {}, log=log)))
        thread.start()
        thread.join()
    assert len(answers) == 3
    assert len(set(answers)) == 1
    assert answers[0].split()[1:] == ["None", "here"]


def test_who_ask_at_once_get_processes_of_their_own(helper: Staying, tmp_path: Path) -> None:
    meet = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        log = tmp_path / "log.txt"
        asked = [pool.submit(helper.ask, {}, {}, log=log, tick=meet.wait) for _ in range(2)]
        assert len({future.result(PATIENCE_SECONDS) for future in asked}) == 2


def test_an_environment_has_its_own_processes_and_idle_ones_end_when_told(helper: Staying, tmp_path: Path) -> None:
    log, kinds = tmp_path / "log.txt", ({"KIND": "a"}, {"KIND": "b"}, {"KIND": "a"})
    first, other, again = (helper.ask({}, kind, log=log).split() for kind in kinds)
    assert first == again
    assert (first[1], other[1]) == ("a", "b")
    helper.end_idle({"KIND": "a"})
    assert not Path(f"/proc/{first[0]}").exists()
    assert helper.ask({}, {"KIND": "b"}, log=log).split() == other


@pytest.mark.parametrize(("status", "error"), [(1, Failed), (2, InputError)])
def test_a_failure_is_told_by_the_log_of_its_request(
    helper: Staying, tmp_path: Path, status: int, error: type[Exception]
) -> None:
    first = helper.ask({}, {}, log=tmp_path / "first.log")
    with pytest.raises(error, match="field x: must be 1"):
        helper.ask({"status": status, "log": str(tmp_path / "own.log")}, {}, log=tmp_path / "own.log")
    assert helper.ask({}, {}, log=tmp_path / "first.log") != first


def test_a_killed_process_is_noticed_at_once_and_progress_is_told_meanwhile(helper: Staying, tmp_path: Path) -> None:
    mark, ticks = tmp_path / "mark", []

    def tick() -> None:
        ticks.append(mark.exists() and mark.read_text())
        if ticks[-1]:
            os.kill(int(ticks[-1]), signal.SIGKILL)

    with pytest.raises(Failed) as caught:
        helper.ask({"mark": str(mark)}, {}, log=tmp_path / "log.txt", tick=tick)
    assert caught.value.reason == "killed by signal 9, its last line was: no output"
    assert not ticks[0]


def test_a_process_that_is_killed_while_it_waits_is_replaced(helper: Staying, tmp_path: Path) -> None:
    before = helper.ask({}, {}, log=tmp_path / "log.txt").split()[0]
    os.kill(int(before), signal.SIGKILL)
    until(lambda: "Z" in Path(f"/proc/{before}/stat").read_text().rpartition(")")[2])
    assert helper.ask({}, {}, log=tmp_path / "log.txt").split()[0] != before


def test_a_study_that_stops_ends_processes_at_work_and_idle_ones(helper: Staying, tmp_path: Path) -> None:
    mark, log = tmp_path / "mark", tmp_path / "log.txt"
    with ThreadPoolExecutor(2) as pool:
        at_work = pool.submit(helper.ask, {"mark": str(mark)}, {}, log=log)
        until(mark.exists)
        idle = helper.ask({}, {}, log=log).split()[0]
        stop_all(grace=PATIENCE_SECONDS)
        with pytest.raises(Stopped):
            at_work.result(PATIENCE_SECONDS)
        with pytest.raises(Stopped):
            helper.ask({}, {}, log=log)
    assert not Path(f"/proc/{idle}").exists()


def test_a_process_that_ends_its_work_when_told_to_stop_does_not_stay(helper: Staying, tmp_path: Path) -> None:
    """Otherwise a stop would wait for the process in vain."""
    log = tmp_path / "log.txt"
    pid = helper.ask({}, {}, log=log).split()[0]
    with ThreadPoolExecutor(1) as pool:
        deaf = pool.submit(helper.ask, {"deaf": True}, {}, log=log)
        until(lambda: _catches_sigterm(int(pid)))
        stop_all(grace=PATIENCE_SECONDS)
        with pytest.raises(Stopped):
            deaf.result(PATIENCE_SECONDS)
    assert not Path(f"/proc/{pid}").exists()


def _catches_sigterm(pid: int) -> bool:
    caught = Path(f"/proc/{pid}/status").read_text().split("SigCgt:")[1].split()[0]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def test_nothing_is_asked_after_the_close(helper: Staying, tmp_path: Path) -> None:
    pid = helper.ask({}, {}, log=tmp_path / "log.txt").split()[0]
    helper.close()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(Stopped):
        helper.ask({}, {}, log=tmp_path / "log.txt")
