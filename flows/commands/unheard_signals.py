"""End a command by signals that Python does not hear, because code in C holds on.

Python runs its handlers between two of its own steps, and one step may be a query, a regular
expression or a tokenizer of hours. So the system's handler writes each signal to a pipe:

    signal -> pipe -> a process beside this one -> pipe -> a thread of this one, which ends it
                            |
                            after the grace and a second: SIGKILL

The thread runs where the code in C has let Python's lock go. The process needs no lock.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from dreamer_study.model.processes import STOPPING

MOST_SECONDS = 127
_AS_GRACE = 128  # a byte from here on is no signal: it says how many seconds the grace has
# Seconds in which the same stop may come twice, as from `timeout`, to the process and its group.
_ONE_STOP = 0.5
_FOR_THE_THREAD = 1.0  # seconds


class Watch:
    """What sees to it that signals end this process: within a grace, the second one at once.

    Begin a watch early, while the process is small and has no threads: it forks.
    """

    def __init__(self, end: Callable[[int], None], grace: float) -> None:
        """Call `end` with the number of a signal, in a thread, where the grace is over."""
        heard, self._to_watcher = os.pipe()
        told, to_thread = os.pipe()
        process = os.getpid()
        self._watcher = os.fork()
        if not self._watcher:
            os.close(self._to_watcher)
            os.close(told)
            _watch(process, heard, to_thread)
        os.close(heard)
        os.close(to_thread)
        os.set_blocking(self._to_watcher, False)
        self.set_grace(grace)
        signal.set_wakeup_fd(self._to_watcher, warn_on_full_buffer=False)
        threading.Thread(target=_end_when_told, args=(told, end), daemon=True).start()

    def set_grace(self, seconds: float) -> None:
        """Let the process end within this number of seconds after a signal."""
        os.write(self._to_watcher, bytes([_AS_GRACE + min(round(seconds), MOST_SECONDS)]))

    def close(self) -> None:
        """End the watch."""
        signal.set_wakeup_fd(-1)
        os.close(self._to_watcher)
        os.waitpid(self._watcher, 0)


def _end_when_told(told: int, end: Callable[[int], None]) -> None:
    """Wait for the watching process, end the processes of pools, and call `end`."""
    # a signal that this thread would receive wakes nothing that the main thread waits for
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    number = os.read(told, 1)
    if not number:
        return
    _end_pools()
    end(number[0])


def _end_pools() -> None:
    """End the processes of pools, whose code may hold on as well."""
    pools = sys.modules.get("multiprocessing")
    if pools is None:
        return
    for child in pools.active_children():
        child.kill()


def _watch(process: int, heard: int, to_thread: int) -> NoReturn:
    """Be the process that watches."""
    try:
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)  # the terminal sends them to all of its group
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)  # a reader of ours does not wait for us
        number = _when_to_end(heard)
        if number is not None:
            os.write(to_thread, bytes([number]))
            ended, _, _ = select.select([heard], [], [], _FOR_THE_THREAD)
            while ended and os.read(heard, 4096):
                ended, _, _ = select.select([heard], [], [], _FOR_THE_THREAD)
            if not ended:
                os.kill(process, signal.SIGKILL)
    finally:
        os._exit(0)


def _when_to_end(heard: int) -> int | None:
    """Wait until the grace after a signal is over, or another one comes; returns the first one.

    None where the process has ended, which closes the pipe.
    """
    grace = 0.0
    first: int | None = None
    since = 0.0
    while True:
        left = None if first is None else max(since + grace - time.monotonic(), 0.0)
        ready, _, _ = select.select([heard], [], [], left)
        if not ready:
            return first
        received = os.read(heard, 4096)
        if not received:
            return None
        for byte in received:
            if byte >= _AS_GRACE:
                grace = float(byte - _AS_GRACE)
            elif byte in STOPPING and first is None:
                first = byte
                since = time.monotonic()
            elif byte in STOPPING and time.monotonic() > since + _ONE_STOP:
                return first
