"""What commands print is folded at words to the width of a terminal, and whole in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.study_plan import Plan
from tests.faults.processes import DREAMER
from tests.flows.by_hand import study_file

WIDTH = 80


def lines(capsys: pytest.CaptureFixture[str], *given: object) -> list[str]:
    capsys.readouterr()
    assert main([*map(str, given)]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "dropped", "preview"])
def test_texts_are_folded_at_words(
    command: str,
    prepared: Callable[..., Plan],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = (command, study_file(tmp_path), "--root", prepared().study.folder)
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = lines(capsys, *given)
    assert max(map(len, whole)) > WIDTH
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    folded = lines(capsys, *given)
    assert " ".join(folded).split() == " ".join(whole).split()
    # a table in a pipe is whole, whatever COLUMNS says, and has no word of a text
    tables = {line for line in whole if "  " in line.strip()[12:]}
    too_long = [line for line in folded if len(line) > WIDTH and line not in tables]
    # but a word may be longer than a line, such as a path
    assert [line for line in too_long if len(max(line.split(), key=len)) < WIDTH - 16] == []


def on_a_terminal(*command: str, columns: int) -> tuple[int, list[str]]:
    """Run a program on a terminal of this width; return its status and lines."""
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        command, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    written = b""
    with suppress(OSError):  # where the other end is closed
        while part := os.read(ours, 65536):
            written += part
    os.close(ours)
    return process.wait(), written.decode().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "widest"), [(80, 80), (60, 60), (160, 100)])
def test_an_error_on_a_terminal_is_folded_at_words(columns: int, widest: int) -> None:
    status, said = on_a_terminal(str(DREAMER), "run", columns=columns)
    assert status == 2
    assert widest - 25 < max(map(len, said)) <= widest
    assert said[0].startswith("dreamer: run needs a STUDY")
    # a command that is to be typed is not broken
    assert any("`dreamer run --help`" in line for line in said)


def test_an_error_in_a_pipe_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["status", "no-such-study"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) > WIDTH
