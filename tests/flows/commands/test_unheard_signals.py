"""Signals end a command within its grace, whatever code in C is doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

GRACE = 1.0
# what the watching process and a busy machine take
LEEWAY = 8.0
# in which spawned workers are at work
WORKERS_BEGIN_SECONDS = 10.0
BEGIN = """
import os, signal, sys, time
from functools import partial
from dreamer_study.flows.commands import cli
from dreamer_study.flows.commands.unheard_signals import Watch
watch = Watch(cli._say_and_end, GRACE)
"""
# DuckDB may answer a signal by an error of its own, which `cli._run` takes for the signal.
HANDLED = """
signals = []
def end(kind, error, trace):
    if signals:
        os._exit(128 + signals[0])
    sys.__excepthook__(kind, error, trace)
sys.excepthook = end
with cli.handling(partial(cli._note, signals)):
    print("begun", flush=True)
    {work}
"""
QUERY = """import duckdb
    duckdb.sql("set threads = 1")
    duckdb.sql("select max(length(regexp_replace(repeat('ab', 10000000) || i, '(a|b)*', 'c', 'g')))"
               " from range(1000000) t(i)").fetchall()"""
# holds Python's lock
MARKS = """import unicodedata
    unicodedata.normalize("NFD", "a" + "\\u0301\\u0316" * 300_000)"""
SORT = "import numpy as np\n    np.sort(np.random.default_rng(0).random(10**9).reshape(1, -1))"
POOL = """from dreamer_study.pipeline.storage.parallel import workers
    import re
    with workers(2) as run:
        list(run(re.match, [(r"(a+)+$", "a" * 64 + "b")] * 2))"""
DASK = """from dreamer_study.pipeline.storage.parallel import local_scheduler, workers
    import re
    with local_scheduler(2) as address, workers(2, address) as run:
        list(run(re.match, [(r"(a+)+$", "a" * 64 + "b")] * 2))"""

STUBBORN = """for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os.write(1, b"heard\\n"))
    print("deaf", flush=True)
    while True:
        time.sleep(600)"""


def _begin(work: str, grace: float = GRACE) -> subprocess.Popen[str]:
    """Begin a command that does this work, in a session of its own."""
    script = BEGIN.replace("GRACE", str(grace)) + HANDLED.format(work=work)
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(1)  # until code in C runs
    return process


def _is_gone(session: int) -> bool:
    """Tell whether no process of a session is left."""
    for _ in range(100):
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("work", "status"),
    [(QUERY, 128), (SORT, 128), (POOL, 128), (MARKS, 0)],
    ids=["query", "sort", "pool", "marks"],
)
def test_a_signal_ends_code_in_c_within_the_grace(
    work: str, status: int, number: signal.Signals
) -> None:
    process = _begin(work)
    process.send_signal(number)
    began = time.monotonic()
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert time.monotonic() - began < GRACE + LEEWAY
    if status:
        # DuckDB hears Ctrl-C in some queries, and the interpreter ends by it
        assert process.returncode in (status + number, -number), errors
    else:
        assert process.returncode == -signal.SIGKILL, errors  # no line of Python can run
    assert _is_gone(process.pid)


@pytest.mark.parametrize("work", [POOL, DASK], ids=["pool", "dask"])
def test_workers_end_with_a_killed_command_also_where_code_in_c_holds_on(work: str) -> None:
    process = _begin(work)
    time.sleep(WORKERS_BEGIN_SECONDS)
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)  # workers have its streams
    assert _is_gone(process.pid)


def test_a_second_signal_ends_at_once_and_one_that_comes_twice_is_one() -> None:
    process = _begin(STUBBORN, grace=60)
    assert process.stdout is not None
    assert process.stdout.readline() == "deaf\n"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == process.stdout.readline() == "heard\n"
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    # of two that come at once the system hands over either first
    assert process.wait(timeout=PATIENCE_SECONDS) - 128 in (signal.SIGINT, signal.SIGTERM)


def test_a_watch_ends_with_its_process() -> None:
    process = _begin("pass")
    assert process.wait(timeout=60) == 0
    assert _is_gone(process.pid)
