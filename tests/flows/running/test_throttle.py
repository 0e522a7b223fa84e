"""Showing takes a hundredth of the time at first, a five-hundredth at last; looks at what is silent become rare."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.running import throttle
from flows.running.throttle import FIRST_SHARE, LAST_SHARE, LONGEST_SECONDS, Throttle, look_again, share

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


@given(SECONDS, st.floats(0.5, 5))
def test_looks_at_what_is_silent(silence: float, least: float) -> None:
    assert least <= look_again(silence, least) <= max(least, LONGEST_SECONDS)
    assert look_again(silence, least) <= max(least, silence / 100)
