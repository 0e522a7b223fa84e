"""`make up` starts a killed Prefect server again: a study under way goes on, and its flow run ends as completed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import child, trains, until
from tests.flows.small_study import PROJECT, small_study


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/api"


def ask(address: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer of Prefect's API; nothing where none comes, as from a server that is just starting."""
    content = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"{address}/{path}", content, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except OSError:
        return {}


@pytest.mark.slow
def test_a_killed_server_is_started_again_and_the_study_goes_on(tmp_path: Path) -> None:
    address, log, root = free_address(), tmp_path / "log", tmp_path / "run"
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    variables = {**ours, "PREFECT_API_URL": address, "PREFECT_HOME": str(tmp_path / "prefect"), "OMP_NUM_THREADS": "1"}
    with log.open("ab") as output:
        command = [sys.executable, "-m", "flows.prefect.serve"]
        up = subprocess.Popen(command, cwd=PROJECT, env=variables, stdout=output, stderr=output, start_new_session=True)
    try:
        name = "deployments/name/full-study/full-study"
        until(lambda: ask(address, name), up, log, pause=2)
        study = small_study(tmp_path, tokens=60_000, save_every_seconds=0)
        start = {"parameters": {"study": str(study), "root": str(root)}, "state": {"type": "SCHEDULED"}}
        run = ask(address, f"deployments/{ask(address, name)['id']}/create_flow_run", start)["id"]
        until(lambda: trains(root), up, log)
        server = child(up.pid, "prefect server start")
        assert server is not None
        assert "Prefect's server is lost" not in log.read_text()
        os.kill(server, signal.SIGKILL)
        ended = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        until(lambda: ask(address, f"flow_runs/{run}").get("state_type") in ended, up, log, pause=2)
        assert ask(address, f"flow_runs/{run}")["state_type"] == "COMPLETED"
        assert (root / "report" / "index.html").exists()
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(120)
    assert log.read_text().count("Prefect's server was killed by signal 9; another one starts; studies go on") == 1
