"""One Prefect server for the tests of this folder that need one: that of Prefect's own test
harness."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.testing.utilities import prefect_test_harness

START_SECONDS = 300  # on a machine with much other work


@pytest.fixture(scope="session")
def _harness() -> Iterator[None]:
    with prefect_test_harness(START_SECONDS):
        yield


@pytest.fixture
def client(_harness: None) -> Iterator[SyncPrefectClient]:
    """A client of a server that no study depends on."""
    with get_client(sync_client=True) as client:
        yield client
