"""What tests of training share."""

import signal

import pytest

from dreamer_study.model.processes import STOPPING
from dreamer_study.model.train import main


@pytest.fixture(autouse=True)
def signal_handlers():
    """The command sets handlers of its own in this process: put the old ones back."""
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def exit_status(capfd):
    """A function that runs the command in this process: exit status and the lines on stderr."""
    return lambda *arguments: (
        main([str(a) for a in arguments]),
        capfd.readouterr().err.splitlines(),
    )
