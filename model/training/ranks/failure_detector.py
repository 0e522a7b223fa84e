"""Detect the end of another rank: one TCP connection between the first rank and each other one.

A connection carries one byte, the exit status with which a rank leaves. A connection that closes without this byte
means a lost rank: the system closes those of a killed process at once, and its keep-alive probes find a machine without
power or network within LOST_SECONDS. The connections of torch.distributed cannot serve here: they are not probed, and
nothing else wakes a host that waits for a sum on its GPU.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

NOTICE_SECONDS = 5.0  # within which the end of a process is known
LOST_SECONDS = 40  # within which the loss of a machine is known
JOIN_SECONDS = 60.0  # longest wait for the connections of all ranks
PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 5}
"""Seconds of silence before the first probe (macOS has another name for it), between probes; number of probes."""
HELLO = struct.Struct("!qi")  # a secret of this run's ranks, and the rank that connects


class FailureDetector:
    """End this process, with status 1 and one line from one rank, when another of `count` ranks is lost."""

    def __init__(self, name: str, rank: int, count: int, broadcast: Callable[[list[int]], list[int]]) -> None:
        """Connect all ranks, which must call this together; `broadcast` returns the first rank's numbers on each.

        Raises OSError if a connection fails.
        """
        self._name, self._rank, self._count = name, rank, count
        self._leaving, self._lock = False, threading.Lock()
        self._connections = _accept_all(count, broadcast) if rank == 0 else {0: _connect(rank, broadcast)}
        for connection in self._connections.values():
            _probe(connection)
        self._threads = [threading.Thread(target=self._watch, args=(peer,), daemon=True) for peer in self._connections]
        for thread in self._threads:
            thread.start()

    def leave(self, status: int) -> None:
        """Send this rank's exit status; wait for those of all others, after a failure NOTICE_SECONDS at most."""
        with self._lock:
            self._leaving = self._leaving or status != 0
        self._send(status, self._connections)
        deadline = time.monotonic() + NOTICE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()) if status else None)

    def wait(self) -> None:
        """Give another rank's exit status the time to arrive and to end this process."""
        time.sleep(NOTICE_SECONDS)

    def _watch(self, peer: int) -> None:
        try:
            received = self._connections[peer].recv(1)
        except OSError:  # the probes were in vain, or the connection was reset
            received = b""
        # One rank speaks for all: the first, or if the first is lost, the next.
        status, speaks = (received[0], False) if received else (1, self._rank == (0 if peer else 1))
        if status == 0:
            return
        with self._lock:  # what this rank hears from the others afterwards is only the echo
            if self._leaving:
                return
            self._leaving = True
        if speaks:
            print(
                f"{self._name}: rank {peer} of {self._count} is lost (killed, or its machine); training stopped, "
                "start it again to go on from the last saved state",
                file=sys.stderr,
                flush=True,
            )
        self._send(status, [other for other in self._connections if other != peer])
        os._exit(status)

    def _send(self, status: int, peers: Iterable[int]) -> None:
        for peer in peers:
            with suppress(OSError):  # that rank has ended already
                self._connections[peer].sendall(bytes([status]))


def _accept_all(count: int, broadcast: Callable[[list[int]], list[int]]) -> dict[int, socket.socket]:
    """Accept a connection from every other rank, on the first one; strangers are refused."""
    secret, connections, deadline = secrets.randbits(62), {}, time.monotonic() + JOIN_SECONDS
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    with socket.create_server(("", 0), family=family, backlog=count, dualstack_ipv6=dual) as server:
        broadcast([server.getsockname()[1], secret])
        while len(connections) < count - 1:
            server.settimeout(max(0.001, deadline - time.monotonic()))
            connection, _ = server.accept()
            connection.settimeout(NOTICE_SECONDS)
            with suppress(OSError, struct.error):  # a stranger's connection
                received, rank = HELLO.unpack(connection.recv(HELLO.size, socket.MSG_WAITALL))
                if received == secret:
                    connections[rank] = connection
    return connections


def _connect(rank: int, broadcast: Callable[[list[int]], list[int]]) -> socket.socket:
    port, secret = broadcast([0, 0])
    connection = socket.create_connection((os.environ["MASTER_ADDR"], port), JOIN_SECONDS)
    connection.sendall(HELLO.pack(secret, rank))
    return connection


def _probe(connection: socket.socket) -> None:
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
