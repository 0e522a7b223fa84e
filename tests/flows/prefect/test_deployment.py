"""The documented way through Prefect, with its real commands on loopback: server, pool, deploy, worker, run."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

PROJECT = Path(__file__).resolve().parents[3]
PREFECT = Path(sys.executable).with_name("prefect")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A Prefect of its own: home, port and server, which ends with the test."""
    port = free_port()
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")},
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "NO_PROXY": "127.0.0.1,localhost",
        "OMP_NUM_THREADS": "1",
    }
    command = [PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=variables, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{variables['PREFECT_API_URL']}/health", timeout=2).close()
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "server.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.5)
        yield variables
    finally:
        server.terminate()
        server.wait(30)


def prefect(environment: dict[str, str], *arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PREFECT, *arguments], env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=seconds
    )


@pytest.mark.slow
def test_server_worker_deploy_and_run_by_bare_name(environment: dict[str, str], tmp_path: Path) -> None:
    assert PREFECT.exists()
    created = prefect(environment, "work-pool", "create", "study", "--type", "process")
    assert created.returncode == 0, created.stdout + created.stderr
    deployed = prefect(environment, "--no-prompt", "deploy", "--all")
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    with (tmp_path / "worker.log").open("wb") as log:
        command = [PREFECT, "worker", "start", "--pool", "study"]
        worker = subprocess.Popen(command, env=environment, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True)
    try:
        study, root = PROJECT / "tests" / "studies" / "tiny.yaml", tmp_path / "run"
        parameters = ["--param", f"study={study}", "--param", f"root={root}"]
        ran = prefect(environment, "deployment", "run", "full-study", *parameters, "--watch", seconds=500)
        assert ran.returncode == 0, ran.stdout + ran.stderr + (tmp_path / "worker.log").read_text()[-3000:]
    finally:
        worker.kill()  # idle now; asked to end, Prefect's worker sometimes goes on waiting for an event of its own
        worker.wait()
    assert (root / "report" / "index.html").stat().st_size > 10_000
    with duckdb.connect(str(root / "results.duckdb"), read_only=True) as connection:
        variants = connection.execute("SELECT DISTINCT variant FROM data_efficiency ORDER BY ALL").fetchall()
    assert variants == [("DR",), ("DR+DA",), ("LA",)]
    unknown = prefect(environment, "deployment", "run", "no-such-study")
    assert unknown.returncode == 1
    assert "not found" in unknown.stdout + unknown.stderr
