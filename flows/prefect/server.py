"""Start, watch and end Prefect servers on this machine.

They answer nobody without a secret, which is in a file that only this user can read. The server of
`make up`, which starts studies for whoever has its secret, has one that stays; the server of a run
has one of its own, which ends with the run. A secret is sent to no server of another user, and is
printed to a terminal only.
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
from typing import TextIO
from urllib.parse import urlsplit

from dreamer_study.flows.jobs import Failed
from dreamer_study.flows.jobs.private_files import private_folder, write_private
from dreamer_study.model.processes import bound_command
from dreamer_study.pipeline.errors import InputError

START_SECONDS = 300  # 5 to 18 on a free machine; 112 were seen beside ten other programs
END_SECONDS = 30
LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEFAULT_PORT = 4200
SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENS = "0A"  # the state of a listening socket there


class NoServer(Failed):
    """No Prefect server starts, or the server that is there takes no flow run."""


def new_secret() -> str:
    """Return a new secret: `dreamer:<random>`."""
    return f"dreamer:{secrets.token_urlsafe(16)}"


@cache
def secret_file() -> Path:
    """Return the file of the secret of `make up`, which is made when it is first asked for."""
    path = private_folder("prefect") / "secret"
    if not path.exists():
        with NamedTemporaryFile("w", dir=path.parent) as file:  # which this user alone can read
            file.write(new_secret())
            file.flush()
            with suppress(FileExistsError):  # another process was first
                os.link(file.name, path)
    return path


def secret_file_of(address: str) -> Path:
    """Return the file of the secret of this user's server at an address.

    The server of a run has a file of its own, named by its port, as long as the run lasts.
    """
    own = _own_secret_file(address)
    return own if own.exists() else secret_file()


def _own_secret_file(address: str) -> Path:
    return private_folder("prefect") / f"secret-{_port(address)}"


def secret() -> str:
    """Return the secret of the server of `make up`."""
    return secret_file().read_text()


def secret_for(reader: TextIO, file: Path) -> str:
    """Say which secret the pages ask for: the secret itself on a terminal, else its file."""
    if reader.isatty():
        return f"secret {file.read_text()}"
    return f"secret in {file}"


def _port(address: str) -> int:
    return urlsplit(address).port or DEFAULT_PORT


def allow_loopback() -> None:
    """Exclude loopback addresses from a proxy.

    Through a proxy Prefect's client would not reach its own server.
    """
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


def owners(address: str) -> set[int]:
    """Return the users whose programs listen at the port of an address, on this machine.

    Linux tells. A row of its table of sockets begins with a number, the local address, the remote
    one and the state; the user is the eighth:

    >>> row = "0: 0100007F:1068 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000"
    >>> int(row.split()[1].rpartition(":")[2], 16), row.split()[3], row.split()[7]
    (4200, '0A', '1000')
    """
    port = f":{_port(address):04X}"
    users = set[int]()
    for table in SOCKETS:
        with suppress(OSError):
            for row in table.read_text().splitlines()[1:]:
                columns = row.split()
                if columns[1].endswith(port) and columns[3] == LISTENS:
                    users.add(int(columns[7]))
    return users


def ours(address: str) -> bool:
    """Check that nobody but this user and root listens at the port of an address of this machine.

    Another user may have taken the port while our server starts, or for good: that one gets no
    secret.
    """
    return owners(address) <= {os.getuid(), 0}


def secret_of(address: str) -> str | None:
    """Return the secret where a server of this user answers at an address of this machine."""
    if urlsplit(address).hostname not in LOOPBACK:
        return None
    # Where nobody listens, a program of another user may come before the secret is sent.
    if not owners(address) or not ours(address):
        return None
    return secret_file_of(address).read_text()


def check_port(address: str) -> None:
    """Raise InputError where no server can be started at an address."""
    parts = urlsplit(address)
    try:
        socket.create_server((str(parts.hostname), _port(address))).close()
    except OSError as error:
        raise InputError(
            f"no Prefect server answers at {address}, and none can start there ({error.strerror}):"
            " another program has the port, or the address is not of this machine. For another"
            " port: PREFECT_API_URL=http://127.0.0.1:4201/api make up"
        ) from None


def start_server(address: str, asks_for: str) -> subprocess.Popen[bytes]:
    """Start a Prefect server at an address: one process, which ends when this process dies.

    So no earlier server answers at the address. Pages of other origins get no answer, nor does
    anybody without the secret that the server asks for.
    """
    host = str(urlsplit(address).hostname)
    port = str(_port(address))
    environment = {
        **os.environ,
        "PREFECT_SERVER_API_AUTH_STRING": asks_for,
        "PREFECT_API_AUTH_STRING": asks_for,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": address.removesuffix("/api"),
        "PREFECT_SERVER_UI_API_URL": address,
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    }
    command = ("prefect", "server", "start", "--host", host, "--port", port)
    return subprocess.Popen(
        bound_command(*command, ends_by=signal.SIGKILL),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=environment,
    )


def await_server(server: subprocess.Popen[bytes], address: str) -> subprocess.Popen[bytes]:
    """Wait until a server that was started answers; returns the server.

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
    """End a server and what it has started, by force where the server does not end when asked."""
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(END_SECONDS)
    with suppress(ProcessLookupError, PermissionError):  # as for every session, see `Child.signal`
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


@contextmanager
def own_server() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a Prefect server on a free loopback port during the block; its data are in PREFECT_HOME.

    Yields the server, which is starting, and the address of its API, for `await_server`: starting
    takes seconds, in which others can work. Its secret is new, and in `secret_file_of(address)`
    during the block: whoever reads it later, in a log or a terminal's history, can start nothing.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}/api"
    asks_for = new_secret()
    file = _own_secret_file(address)
    write_private(file, asks_for)
    try:
        server = start_server(address, asks_for)
        try:
            yield server, address
        finally:
            end_server(server)
    finally:
        file.unlink(missing_ok=True)


@contextmanager
def kept_alive(address: str) -> Iterator[None]:
    """Run a Prefect server at an address during the block; one that is killed is started again.

    That is said. Raises InputError where another program has the port, NoServer where the server
    does not start. Ends this process with status 1 where none starts again: studies under way need
    no server, and continue.
    """
    check_port(address)
    _own_secret_file(address).unlink(missing_ok=True)  # of a run that was killed
    servers = [await_server(start_server(address, secret()), address)]
    ending = threading.Event()

    def say(message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def watch() -> None:
        while True:
            status = servers[-1].wait()
            if ending.is_set():
                return
            if status < 0:
                end = f"was killed by signal {-status}"
            else:
                end = f"ended with status {status}"
            say(f"Prefect's server {end}; another one starts; studies continue")
            try:
                servers.append(await_server(start_server(address, secret()), address))
            except NoServer as error:
                say(f"{error}. Studies under way continue; start `make up` again")
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ending.set()
        end_server(servers[-1])
