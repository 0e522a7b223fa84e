"""What a command says where it refuses."""

from __future__ import annotations

import pytest

from dreamer_study.flows.commands.cli import main


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the command, which must refuse; its one line."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 2
    (said,) = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("dreamer: ")
    ]
    return said
