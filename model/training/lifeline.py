"""How the ranks of a run learn that one of them has ended, whatever the others are doing: a connection between the
first rank and each other one that carries nothing but a last word, the status a rank leaves with.

Without a word the rank at the other end is lost. A killed process closes its connection at once; for a machine without
power or network the system's own probes find out within LOST_SECONDS. These connections are none of
torch.distributed's, which would wait for minutes for such a machine, and whose waiting threads hinder the end of their
process.
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
LOST_SECONDS = 40  # within which that of a machine is
JOIN_SECONDS = 60.0  # so long the ranks wait for each other's connection
PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 5}
"""After so many seconds of silence, every so many, so many in vain: LOST_SECONDS. macOS names the first otherwise."""
HELLO = struct.Struct("!qi")  # what only the ranks of this run know, and which of them it is


class Lifeline:
    """Ends this process, with status 1 and one line from one of them, when another of `count` ranks is lost."""

    def __init__(self, name: str, rank: int, count: int, spread: Callable[[list[int]], list[int]]) -> None:
        """Connect all ranks, which must do it together; `spread` gives every one of them the first one's numbers.

        Raises OSError where a connection does not come about.
        """
        self._name, self._rank, self._count = name, rank, count
        self._leaving, self._lock = False, threading.Lock()
        self._connections = _from_all(count, spread) if rank == 0 else {0: _to_first(rank, spread)}
        for connection in self._connections.values():
            _probe(connection)
        self._threads = [threading.Thread(target=self._watch, args=(peer,), daemon=True) for peer in self._connections]
        for thread in self._threads:
            thread.start()

    def leave(self, status: int) -> None:
        """Say the last word, and wait for those of the others, or where something is wrong for their ends."""
        with self._lock:
            self._leaving = self._leaving or status != 0
        self._send(status, self._connections)
        for thread in self._threads:
            thread.join(NOTICE_SECONDS if status else None)

    def wait(self) -> None:
        """Give the word of another rank the time to arrive and end this process."""
        time.sleep(NOTICE_SECONDS)

    def _watch(self, peer: int) -> None:
        try:
            word = self._connections[peer].recv(1)
        except OSError:  # the probes were in vain, or it was reset
            word = b""
        # One rank speaks for all: the first, or if that is the lost one, the next.
        status, says = (word[0], False) if word else (1, self._rank == (0 if peer else 1))
        if status == 0:
            return
        with self._lock:  # what this rank then hears from the others is only the echo
            if self._leaving:
                return
            self._leaving = True
        if says:
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
            with suppress(OSError):  # it has ended already
                self._connections[peer].sendall(bytes([status]))


def _from_all(count: int, spread: Callable[[list[int]], list[int]]) -> dict[int, socket.socket]:
    """The first rank's connections, by rank."""
    secret, connections, deadline = secrets.randbits(62), {}, time.monotonic() + JOIN_SECONDS
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    with socket.create_server(("", 0), family=family, backlog=count, dualstack_ipv6=dual) as server:
        spread([server.getsockname()[1], secret])
        while len(connections) < count - 1:
            server.settimeout(max(0.001, deadline - time.monotonic()))
            connection, _ = server.accept()
            connection.settimeout(NOTICE_SECONDS)
            with suppress(OSError, struct.error):  # a stranger, who is left
                said, rank = HELLO.unpack(connection.recv(HELLO.size, socket.MSG_WAITALL))
                if said == secret:
                    connections[rank] = connection
    return connections


def _to_first(rank: int, spread: Callable[[list[int]], list[int]]) -> socket.socket:
    port, secret = spread([0, 0])
    connection = socket.create_connection((os.environ["MASTER_ADDR"], port), JOIN_SECONDS)
    connection.sendall(HELLO.pack(secret, rank))
    return connection


def _probe(connection: socket.socket) -> None:
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
