"""Tests of the server that a study runs for itself."""

import prefect.cli
import pytest
from docket import Docket, Worker

from flows.prefect import study_server


def test_background_tasks_are_looked_for_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "__init__", Worker.__init__)  # put back after the test
    seen: list[Worker] = []
    monkeypatch.setattr(prefect.cli, "app", lambda: seen.append(Worker(Docket())))
    study_server.main()
    (worker,) = seen
    assert worker.minimum_check_interval == worker.scheduling_resolution == study_server.INTERVAL
