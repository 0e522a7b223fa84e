"""Start, watch and end Prefect servers on this machine, which answer nobody without this user's
secret.

The secret is in a file that only this user can read.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import urlsplit

from dreamer_study.flows.jobs import Failed
from dreamer_study.flows.jobs.private_files import private_folder
from dreamer_study.model.processes import bound_command
from dreamer_study.pipeline.errors import InputError

START_SECONDS = 300  # 5 to 18 on a free machine; 112 were seen beside ten other programs
END_SECONDS = 30
LOOPBACK = ("127.0.0.1", "localhost", "::1")
SOCKETS, LISTENS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6")), "0A"


class NoServer(Failed):
    """No Prefect server starts, or the server that is there takes no flow run."""


@cache
def secret() -> str:
    """Return the secret of this user's Prefect servers, `dreamer:<random>`; made when it is first
    asked for."""
    path = private_folder("prefect") / "secret"
    if not path.exists():
        with NamedTemporaryFile("w", dir=path.parent) as file:  # which this user alone can read
            file.write(f"dreamer:{secrets.token_urlsafe(16)}")
            file.flush()
            with suppress(FileExistsError):  # another process was first
                os.link(file.name, path)
    return path.read_text()


def allow_loopback() -> None:
    """Exclude loopback addresses from a proxy, through which Prefect's client would not reach its
    own server."""
    for name in ("NO_PROXY", "no_proxy"):
        given = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join(dict.fromkeys([*given, "127.0.0.1", "localhost"]))


def healthy(address: str) -> bool:
    """Check that a Prefect API answers at an address."""
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
            return answer.status == 200
    except (OSError, ValueError):
        return False


def ours(address: str) -> bool:
    """Check that nobody but this user and root listens at the port of an address of this machine.

    Linux tells. Another user may have taken the port while our server starts, or for good: that one
    gets no secret.
    """
    port, owners = f":{urlsplit(address).port or 4200:04X}", set[int]()
    for table in SOCKETS:
        with suppress(OSError):
            rows = map(str.split, table.read_text().splitlines()[1:])
            owners |= {int(row[7]) for row in rows if row[1].endswith(port) and row[3] == LISTENS}
    return owners <= {os.getuid(), 0}


def secret_of(address: str) -> str | None:
    """Return this user's secret where the server at an address is this user's and on this machine;
    else None."""
    return secret() if urlsplit(address).hostname in LOOPBACK and ours(address) else None


def check_port(address: str) -> None:
    """Raise InputError where no server can be started at an address: another program's, or another
    machine's."""
    place = urlsplit(address)
    try:
        socket.create_server((str(place.hostname), place.port or 4200)).close()
    except OSError as error:
        raise InputError(
            f"no Prefect server answers at {address}, and none can start there ({error.strerror}):"
            " another program has the port, or the address is not of this machine. For another"
            " port: PREFECT_API_URL=http://127.0.0.1:4201/api make up"
        ) from None


def start_server(address: str) -> subprocess.Popen[bytes]:
    """Start a Prefect server at an address; one process, which the system kills at once when this
    process dies.

    So no server of before answers at the address. Pages of other origins get no answer, nor does
    anybody without the secret.
    """
    place = urlsplit(address)
    at = ["--host", str(place.hostname), "--port", str(place.port or 4200)]
    environment = {
        **os.environ,
        "PREFECT_SERVER_API_AUTH_STRING": secret(),
        "PREFECT_API_AUTH_STRING": secret(),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": address.removesuffix("/api"),
        "PREFECT_SERVER_UI_API_URL": address,
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    }
    bound = bound_command("prefect", "server", "start", *at, ends_by=signal.SIGKILL)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    return subprocess.Popen(bound, **quiet, start_new_session=True, env=environment)


def await_server(server: subprocess.Popen[bytes], address: str) -> subprocess.Popen[bytes]:
    """Wait until a server that was started answers, and return the server.

    Raises NoServer when the server ends or does not answer in time.
    """
    deadline = time.monotonic() + START_SECONDS
    try:
        while time.monotonic() < deadline:
            if server.poll() is not None:
                raise NoServer(
                    f"`prefect server start` ended with status {server.returncode}; run it to"
                    " see why"
                )
            if healthy(address) and ours(address):
                return server
            time.sleep(0.1)
        raise NoServer(f"Prefect's server did not answer at {address} within {START_SECONDS} s")
    except BaseException:
        end_server(server)
        raise


def end_server(server: subprocess.Popen[bytes]) -> None:
    """End a server and what it has started; by force where it does not answer a request to end, or
    was killed."""
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(END_SECONDS)
    with suppress(ProcessLookupError, PermissionError):  # as for every session, see `Child.signal`
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


@contextmanager
def own_server() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a Prefect server on a free loopback port during the block, with its data in PREFECT_HOME.

    Yields the server, which is starting, and the address of its API, for `await_server`: starting
    takes seconds, in which others can work.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}/api"
    server = start_server(address)
    try:
        yield server, address
    finally:
        end_server(server)


@contextmanager
def kept_alive(address: str) -> Iterator[None]:
    """Run a Prefect server at an address during the block; one that is killed is started again, and
    that is said.

    Raises InputError where another program has the port, NoServer where the server does not start.
    Ends this process with status 1 where none starts again: studies under way need no server, and
    go on.
    """
    check_port(address)
    servers, ending = [await_server(start_server(address), address)], threading.Event()

    def watch() -> None:
        while True:
            status = servers[-1].wait()
            if ending.is_set():
                return
            by = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            print(
                f"Prefect's server {by}; another one starts; studies go on",
                file=sys.stderr,
                flush=True,
            )
            try:
                servers.append(await_server(start_server(address), address))
            except NoServer as error:
                print(
                    f"{error}. Studies under way go on; start `make up` again",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ending.set()
        end_server(servers[-1])
