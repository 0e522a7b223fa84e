"""Child processes: their failures reach us in words, and none outlives us."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import model.training.ranks.launch
from flows.running.machines import devices
from flows.running.machines.devices import lock_gpus
from flows.running.processes import Failed, Stopped, run_module, stop_all, stopped_on_exit, wait_unless_stopping
from model.training.ranks.launch import ProcessGroup
from pipeline.errors import InputError
from tests.waiting import PATIENCE_SECONDS, until

HELPER = """
import os, signal, sys, time
what, mark = sys.argv[1], sys.argv[2]
if what == "bad":
    sys.exit(print("field x: must be 1") or 2)
if what == "ranks":
    line = " ".join(os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"))
    sys.exit(os.write(1, f"{line}\\n".encode()) and 0)  # at once: the ranks share the file
if what.endswith("-rank") and os.environ["RANK"] == "1":
    while not (os.path.exists(mark) and open(mark).read()):
        time.sleep(0.02)
    if what == "killed-rank":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(print("field x: must be 1") or 2)
if what == "fail":
    raise RuntimeError("broken")
open(mark, "w").write(str(os.getpid()))
if what == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(PATIENCE_SECONDS)
""".replace("PATIENCE_SECONDS", str(PATIENCE_SECONDS))


@pytest.fixture(autouse=True)
def helper_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "helper_child.py").write_text(HELPER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with stopped_on_exit():
        yield


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_bad_input_of_a_child_is_bad_input_of_ours(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="field x: must be 1"):
        run_module("helper_child", ["bad", "-"], log=tmp_path / "log.txt")


def test_failure_names_the_log_and_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"status 1; see .*log.txt: RuntimeError: broken"):
        run_module("helper_child", ["fail", "-"], log=tmp_path / "log.txt")


@pytest.mark.parametrize("what", ["sleep", "stubborn"])
def test_an_error_beside_it_stops_a_child_that_runs_in_a_thread(tmp_path: Path, what: str) -> None:
    mark, caught = tmp_path / "mark", []

    def work() -> None:
        try:
            run_module("helper_child", [what, str(mark)], log=tmp_path / "log.txt")
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=work)

    def start_and_fail() -> None:
        with stopped_on_exit():
            thread.start()
            until(lambda: mark.exists() and mark.read_text())
            stop_all(grace=0.5)  # what the block's end does, with less patience
            raise ValueError("beside it")

    with pytest.raises(ValueError, match="beside it"):
        start_and_fail()
    thread.join(60)
    assert isinstance(caught[0], Stopped)
    assert not alive(int(mark.read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_a_killed_parent_takes_its_children_along(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = (
        "from pathlib import Path; from flows.running.processes import run_module;"
        f"run_module('helper_child', ['sleep', {str(mark)!r}], log=Path({str(tmp_path / 'log.txt')!r}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: mark.exists() and mark.read_text())
    child = int(mark.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until(lambda: not alive(child))


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux tells of the end of a process")
def test_the_end_of_a_rank_is_noticed_at_once(tmp_path: Path) -> None:
    group = ProcessGroup("helper_child", "sleep", str(tmp_path / "mark"), log=tmp_path / "log.txt", ranks=2)
    group.wait(0.1)
    assert group.poll() is None
    first, second = group._children
    os.kill(second.pid, signal.SIGKILL)
    group.wait(PATIENCE_SECONDS)
    assert second.poll() is not None
    assert first.poll() is None  # so the end of the second has ended the wait
    group.kill()
    group.wait(PATIENCE_SECONDS)  # nothing runs any more


def test_ranks_know_of_each_other(tmp_path: Path) -> None:
    run_module("helper_child", ["ranks", "-"], log=tmp_path / "log.txt", ranks=3)
    said = sorted(line.split() for line in (tmp_path / "log.txt").read_text().splitlines())
    assert [line[:3] for line in said] == [[str(rank), str(rank), "3"] for rank in range(3)]
    assert len({line[3] for line in said}) == 1  # one port


@pytest.mark.parametrize(("what", "error"), [("bad-rank", InputError), ("killed-rank", Failed)])
def test_where_one_rank_fails_the_others_are_ended(
    tmp_path: Path, what: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model.training.ranks.launch, "GRACE_SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(error):
        run_module("helper_child", [what, str(tmp_path / "mark")], log=tmp_path / "log.txt", ranks=2)
    assert time.monotonic() - started < PATIENCE_SECONDS  # for which the other one would sleep
    assert not alive(int((tmp_path / "mark").read_text()))


@pytest.fixture
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The locks are the whole machine's, where the same test may run a second time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.usefixtures("own_locks")
def test_a_device_is_held_by_one_at_a_time() -> None:
    with lock_gpus(["test-0", "test-1"]) as first, lock_gpus(["test-0", "test-1"]) as second:
        assert [first, second] == [["test-0"], ["test-1"]]


@pytest.mark.usefixtures("own_locks")
def test_who_wants_several_devices_holds_none_while_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    names, got, waits = ["test-0", "test-1"], [], threading.Event()

    def note(seconds: float) -> None:
        waits.set()
        wait_unless_stopping(seconds)

    monkeypatch.setattr(devices, "wait_unless_stopping", note)

    def wait_for_both() -> None:
        with lock_gpus(names, 2) as found:
            got.append(found)

    with lock_gpus(names) as (first,):
        thread = threading.Thread(target=wait_for_both)
        thread.start()
        assert waits.wait(PATIENCE_SECONDS)
        with lock_gpus(["test-1"]) as second:
            assert second == ["test-1"]
        assert first == "test-0"
        assert not got
    thread.join(60)
    assert got == [names]
