"""Progress reaches who listens, at little cost, and ends no work."""

from __future__ import annotations

import errno
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.losses import say
from flows.watching import progress, throttle
from flows.watching.throttle import FIRST_SHARE, LAST_SHARE, Throttle, share
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


SECONDS = st.floats(0, 1e7)


@pytest.mark.parametrize(("elapsed", "expected"), [(0, 0.01), (600, 0.01), (1200, 0.005), (3000, 0.002), (1e6, 0.002)])
def test_share_of_the_time(elapsed: float, expected: float) -> None:
    assert share(elapsed) == pytest.approx(expected)


@given(SECONDS, SECONDS)
def test_the_share_never_rises(one: float, other: float) -> None:
    early, late = sorted((one, other))
    assert LAST_SHARE <= share(late) <= share(early) <= FIRST_SHARE


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=50))
def test_work_that_rests_takes_its_share_of_a_day(costs: list[float]) -> None:
    clock = 0.0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(throttle, "time", SimpleNamespace(monotonic=lambda: clock))
        throttled, worked, turn = Throttle(), 0.0, 0
        while clock < 86_400:
            spent = costs[turn % len(costs)]
            clock += spent
            rest = throttled.rest(spent)
            assert spent / (spent + rest) == pytest.approx(share(clock))
            clock, worked, turn = clock + rest, worked + spent, turn + 1
    assert worked / clock < 0.003
