"""Run every deployment in the foreground until Ctrl-C (`make up`); start a Prefect server first if none answers.

The deployment `full-study` runs the `demo` preset unless told otherwise; beside it is one deployment for each preset.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flows.running.processes import Failed
from flows.study.loading import read_yaml
from model.training.launch import bound_command

DEPLOYMENTS = Path("prefect.yaml")
START_SECONDS = 300  # 5 to 18 on a free machine; 112 were seen beside ten other programs


def main() -> None:
    """Start a server if none answers, print its address, serve until stopped, and end the server that was started."""
    allow_loopback()
    from prefect import serve
    from prefect.settings import get_current_settings

    address = get_current_settings().api.url
    if not address or not DEPLOYMENTS.exists():
        sys.exit("dreamer up: run this from the project's root, where pyproject.toml and prefect.yaml are")
    server = None if healthy(address) else start_server(address)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        print(f"Prefect answers at {address.removesuffix('/api')}", flush=True)
        print("In a second terminal: prefect deployment run full-study --watch", flush=True)
        serve(*deployments(), limit=1)
    except KeyboardInterrupt:
        pass
    finally:
        if server:
            server.terminate()
            server.wait(30)


def deployments(path: Path = DEPLOYMENTS) -> list[Any]:
    """Build the deployments that `prefect.yaml` lists."""
    from flows.full_study import full_study

    known = ("name", "description", "parameters", "tags")
    listed = read_yaml(str(path), path.read_text())["deployments"]
    return [full_study.to_deployment(**{key: one[key] for key in known if key in one}) for one in listed]


def allow_loopback() -> None:
    """Exclude loopback addresses from a proxy, through which Prefect's client would not reach its own server."""
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1", "localhost"]))


def healthy(address: str) -> bool:
    """Check that a Prefect API answers at an address."""
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def start_server(address: str) -> subprocess.Popen[bytes]:
    """Start a Prefect server at an address and wait until the server answers; it ends when this process ends.

    Raises Failed when the server ends or does not answer in time.
    """
    place = urlsplit(address)
    command = bound_command(
        "prefect", "server", "start", "--host", str(place.hostname), "--port", str(place.port or 4200)
    )
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise Failed(f"Prefect's server ended with status {server.returncode}: see `prefect server start`")
        if healthy(address):
            return server
        time.sleep(0.2)
    server.terminate()
    raise Failed(f"Prefect's server did not answer at {address} within {START_SECONDS} s")


@contextmanager
def own_server() -> Iterator[str]:
    """Run a Prefect server on a free loopback port during the block. Yields the address of its API."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}/api"
    server = start_server(address)
    try:
        yield address
    finally:
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    main()
