"""`make up`: a Prefect server if none answers, and a runner for every deployment, in the foreground until Ctrl-C.

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
from typing import Any
from urllib.parse import urlsplit

from model.training.launch import leashed

START_SECONDS = 120


def main() -> None:
    """Start what is missing, print the address, serve until stopped; the server we started ends with us."""
    allow_loopback()
    from prefect import serve
    from prefect.settings import get_current_settings

    address = get_current_settings().api.url
    if not address:
        sys.exit("dreamer up: no Prefect API address is set; run this from the project's root, where pyproject.toml is")
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


def deployments() -> list[Any]:
    """`full-study` with its default, and the same flow under the name of every preset."""
    from flows.full_study import full_study
    from flows.study.loading import presets

    named = {"full-study": "demo"} | {preset: preset for preset in presets()}
    return [full_study.to_deployment(name, parameters={"study": preset}) for name, preset in named.items()]


def allow_loopback() -> None:
    """A proxy setting without these makes Prefect's client miss its own server."""
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1", "localhost"]))


def healthy(address: str) -> bool:
    """Whether a Prefect API answers at this address."""
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def start_server(address: str) -> subprocess.Popen[bytes]:
    """A server process of our own at the address, answering when this returns; it does not outlive us.

    Raises RuntimeError when it does not come up.
    """
    place = urlsplit(address)
    command = leashed("prefect", "server", "start", "--host", str(place.hostname), "--port", str(place.port or 4200))
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"Prefect's server ended with status {server.returncode}: see `prefect server start`")
        if healthy(address):
            return server
        time.sleep(0.2)
    server.terminate()
    raise RuntimeError(f"Prefect's server did not answer at {address} within {START_SECONDS} s")


@contextmanager
def own_server() -> Iterator[str]:
    """A server on a free port of the loopback for as long as the block lasts: the address of its API."""
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
