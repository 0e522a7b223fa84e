"""Keep processes for the next request: what a training or an evaluation imports takes seconds."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from flows.running.processes import Stopped, check_status, child_process, wait_unless_stopping
from model.training.ranks.launch import ProcessGroup


class Staying:
    """Keep processes `python -m module arguments`, each of which answers one request after another, until `close`.

    There are as many processes as have been asked at once.
    """

    def __init__(self, module: str, arguments: Sequence[str] = (), *, logs: Path | None = None) -> None:
        """Name what runs. A process writes to a numbered log in `logs`, or else to the log of its first request."""
        self._module, self._arguments, self._logs = module, arguments, logs
        self._idle: list[tuple[Mapping[str, str], ProcessGroup]] = []
        self._living: dict[ProcessGroup, ExitStack] = {}
        self._started = 0
        self._closed = False
        self._lock = threading.Lock()  # a process is either known to `close`, or ended by its starter
        self._starter = ThreadPoolExecutor(1)  # processes get SIGTERM when the thread that has started them ends

    def ask(
        self,
        request: Mapping[str, Any],
        environment: Mapping[str, str],
        *,
        log: Path | None = None,
        tick: Callable[[], object] = lambda: None,
    ) -> str:
        """Send a request to an idle process of that environment, or to a new one, and return the answer.

        Calls `tick` every second meanwhile. Raises what `run_module` raises when the process ends instead, with the
        last line of `log`, and Stopped after `close`. A process that does not answer is ended.
        """
        process = self._take(environment, log)
        try:
            answer = process.ask(json.dumps(request), tick)
            if not answer:
                status = process.finish()
                assert status, "a process answers or fails"
                check_status(process, status, self._module)
            wait_unless_stopping(0)  # a process that is told to end when it has just answered may stay
        except BaseException:
            self._end(process)
            raise
        self._idle.append((environment, process))
        return answer

    def end_idle(self, environment: Mapping[str, str]) -> None:
        """End the idle processes of an environment."""
        while process := self._idle_one(environment):
            self._end(process)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed = True
            self._starter.shutdown(wait=False)
        for process in list(self._living):
            self._end(process)

    def _take(self, environment: Mapping[str, str], log: Path | None) -> ProcessGroup:
        wait_unless_stopping(0)
        while process := self._idle_one(environment):
            if process.poll() is None:
                process.log = log or process.log
                return process
            self._end(process)  # killed while it was idle
        with self._lock:
            if self._closed:
                raise Stopped(self._module)
            starting = self._starter.submit(self._start, environment, log)
        return starting.result()

    def _idle_one(self, environment: Mapping[str, str]) -> ProcessGroup | None:
        with self._lock:
            for place, (other, process) in enumerate(self._idle):
                if other == environment:
                    del self._idle[place]
                    return process
        return None

    def _start(self, environment: Mapping[str, str], log: Path | None) -> ProcessGroup:
        self._started += 1
        log = log or self._logs / f"{self._module.rpartition('.')[2]}-{self._started}.log"
        held = ExitStack()
        process = held.enter_context(
            child_process(self._module, self._arguments, log=log, environment=environment, asked=True)
        )
        with self._lock:
            if not self._closed:
                self._living[process] = held
                return process
        held.close()
        raise Stopped(self._module)

    def _end(self, process: ProcessGroup) -> None:
        if held := self._living.pop(process, None):
            held.close()
