"""Prefect's server is killed or hangs while models train: work goes on to its end, and that is said in one line."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sql.results import query
from tests.faults.processes import child, commands, start, trains
from tests.flows.small_study import small_study
from tests.waiting import PATIENCE_SECONDS, until


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_study_outlives_its_server(tmp_path: Path, number: signal.Signals) -> None:
    root, log = tmp_path / "run", tmp_path / "log"
    study = small_study(tmp_path, tokens=60_000, save_every_seconds=0)
    # An address at which nothing answers is no reason to do without a server.
    process = start(study, root, log, PREFECT_API_URL="http://127.0.0.1:9/api")
    until(lambda: trains(root), process, log)
    server = child(process.pid, "server start")
    assert server is not None
    assert "Prefect's server is lost" not in log.read_text()
    os.kill(server, number)
    assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()
    said = log.read_text()
    assert "(this run's own; none answers at http://127.0.0.1:9/api)" in said
    assert said.count("Prefect's server is lost") == 1
    assert "Traceback" not in said
    assert server not in commands()
    assert query(root / "results.duckdb", "select count(*) as n from evaluations")["n"][0] > 0
    assert (root / "report" / "index.html").exists()
