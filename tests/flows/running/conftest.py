"""What every test of running processes begins with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flows.running.processes import stopped_on_exit


@pytest.fixture(autouse=True)
def nothing_is_stopped() -> Iterator[None]:
    """Forget that an earlier test of this process has stopped its study."""
    with stopped_on_exit():
        yield
