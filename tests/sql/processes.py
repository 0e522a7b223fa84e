"""Real processes for the tests: programs given as text, and a user's shell that holds a results
file open."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import until

PROJECT = Path(__file__).resolve().parents[2]

# A user's shell: it opens the results file, shows a table, and closes the file when told. A shell
# that writes also enters a row. The prefix `duckdb:` keeps the rows of other processes, as
# `_open` of sql/connection.py says.
SHELL = """
    import sys
    import duckdb

    connection = duckdb.connect("duckdb:" + sys.argv[1], read_only=sys.argv[2] == "read-only")
    if sys.argv[2] == "read-write":
        connection.execute("insert into studies (study_id) values ('by hand')")
    print(connection.execute("select count(*) from evaluations").fetchall(), flush=True)
    sys.stdin.read()
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process that runs the program with the arguments."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )


@contextmanager
def shell(path: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """The file open in a user's shell. It may take a few attempts to get it between two ingests."""
    while True:
        process = start(SHELL, path, mode)
        if process.stdout.readline():
            break
        process.communicate()
    try:
        yield process
    finally:
        process.communicate()


@contextmanager
def stopped_while_opening(
    path: Path, program: str, *arguments: object
) -> Iterator[subprocess.Popen[str]]:
    """Start a process, stop the process where it first opens a file for writing, and continue it
    after the block.

    Linux holds up a process that opens a file for writing while another has a lease on it, and
    signals the holder.
    """
    with path.open() as file:
        # which is ignored; the usual signal ends a process
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            pytest.skip(f"no leases on this file system: {error}")
        process = start(program, *arguments)
        try:
            until(lambda: fcntl.fcntl(file, fcntl.F_GETLEASE) != fcntl.F_RDLCK, process)
            process.send_signal(signal.SIGSTOP)
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
        except BaseException:
            process.kill()
            raise
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
