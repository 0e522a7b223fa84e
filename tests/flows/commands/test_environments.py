"""The command in odd surroundings: closed streams, little memory, a closed terminal."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from dreamer_study.flows.commands import cli
from dreamer_study.flows.commands.cli import handling, main
from dreamer_study.model.processes import STOPPING, stopping_signals
from tests.flows.small_study import TINY
from tests.sql.empty import empty_file

COMMAND = "dreamer_study.flows.commands.cli"


def in_a_shell(setting: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command after or with what a shell sets up."""
    words = [sys.executable, "-m", COMMAND, *map(str, arguments)]
    script = setting.replace("COMMAND", " ".join(f"'{word}'" for word in words))
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["2>&-", "<&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure(tmp_path: Path, closed: str) -> None:
    database = empty_file(tmp_path / "results.duckdb")
    before = database.read_bytes()
    ran = in_a_shell(f"COMMAND {closed}", "sql", database, "select 41 + 1 as number")
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert ("42" in ran.stdout) == (">&-" not in closed.split())
    # what is printed goes into no file that took the number of a closed stream
    assert database.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["LC_ALL=C", "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0"])
def test_another_locale_reads_and_prints_utf8(tmp_path: Path, locale: str) -> None:
    database = empty_file(tmp_path / "results.duckdb")
    query = "select chr(955) || '-kalkül' as \"größe\""
    words = [sys.executable, "-m", COMMAND, "sql", str(database), query, "--csv"]
    environment = {**os.environ, **dict(pair.split("=") for pair in locale.split())}
    ran = subprocess.run(words, capture_output=True, env=environment)
    assert ran.stderr == b""
    assert ran.stdout.decode() == "größe\nλ-kalkül\n"


@pytest.mark.slow
def test_a_refusal_with_closed_standard_error_keeps_its_status(tmp_path: Path) -> None:
    assert in_a_shell("COMMAND 2>&-", "sql", tmp_path / "none.duckdb", "select 1").returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "run", "verify"])
def test_few_addresses_are_one_line(tmp_path: Path, command: str) -> None:
    ran = in_a_shell("ulimit -v 600000; COMMAND", command, TINY, "--root", tmp_path / "run")
    assert ran.returncode == 2
    line = " ".join(ran.stderr.split())  # which is folded where COLUMNS is set
    assert line.startswith("dreamer: dreamer takes 1 GB of addresses")
    assert "0.6 GB; say `ulimit -v unlimited`" in line


def _wrapped() -> RuntimeError:
    error = RuntimeError("a stage has failed")
    error.__cause__ = MemoryError()
    return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("std::bad_alloc"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        ImportError("libtorch.so: failed to map segment from shared object"),
        _wrapped(),
    ],
)
def test_missing_memory_is_one_line_whoever_misses_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    monkeypatch.setattr(cli, "import_module", lambda name: Mock(plan=Mock(side_effect=error)))
    assert main(["plan", "demo"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dreamer: too little memory (")


def test_other_defects_stay_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    defect = RuntimeError("a defect")
    monkeypatch.setattr(cli, "import_module", lambda name: Mock(plan=Mock(side_effect=defect)))
    with pytest.raises(RuntimeError, match="a defect"):
        main(["plan", "demo"])


def test_an_ignored_hang_up_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    noted: list[int] = []
    try:
        with handling(lambda number, frame: noted.append(number)):
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert noted == [signal.SIGUSR1]


def _handlers(numbers: Sequence[signal.Signals]) -> list[object]:
    return [signal.getsignal(number) for number in numbers]


def test_every_signal_that_stops_is_handled_and_given_back() -> None:
    before = _handlers(STOPPING)
    with handling(print):
        assert _handlers(stopping_signals()) == [print] * len(STOPPING)
    assert _handlers(STOPPING) == before


def test_a_full_disk_says_the_place_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "runs/a/job.json")
    monkeypatch.setattr(cli, "import_module", lambda name: Mock(plan=Mock(side_effect=full)))
    assert main(["plan", "demo"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("dreamer: runs/a/job.json: No space left on device; make room")
