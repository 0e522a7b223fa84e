"""Real processes for the tests: programs given as text, and a user's shell that holds a results file open."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

# A user's shell: opens the file, shows it, closes it when told. A writing one also leaves a row.
SHELL = """
    import sys
    import duckdb

    connection = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "read-only")
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
