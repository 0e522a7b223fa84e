"""Progress reaches who listens, at little cost, and ends no work."""

from __future__ import annotations

import errno
import sys
from types import SimpleNamespace

import pytest

from flows.losses import say
from flows.watching import progress
from tests.flows.heard import Heard


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC, errno.EIO])
def test_a_standard_error_that_fails_ends_no_work(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Its reader has gone (`2>&1 | tee` that was killed), or the disk is full."""

    def fail(*_: str) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=fail, flush=fail, isatty=lambda: False))
    with progress.on_terminal(), progress.listening(Heard()) as heard:
        progress.report("train", 0.5, "half")
        say(["a stage lost much"])
    assert heard.reports == [("train", 0.5, "half")], "the other listeners are told"


def test_a_listener_that_cannot_write_ends_no_work() -> None:
    class Full:
        def update(self, *_: object) -> None:
            raise OSError(errno.ENOSPC, "no")

    with progress.listening(Full()), progress.listening(Heard()) as heard:
        progress.report("train", 1.0)
    assert heard.reports == [("train", 1.0, "")]


@pytest.mark.parametrize(("fraction", "shown"), [(-1, 0), (0.5, 0.5), (0.999, 0.99), (1, 1), (1.2, 1)])
def test_what_goes_on_is_never_shown_as_done(fraction: float, shown: float) -> None:
    with progress.listening(Heard()) as heard:
        progress.report("evaluate", fraction)
    assert heard.reports == [("evaluate", shown, "")]
