"""Evaluate checkpoints in processes that stay, as importing lm-eval takes seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from flows.running.machines.devices import Slots
from flows.running.machines.staying import Staying
from flows.running.processes import Stopped, wait_unless_stopping

MODULE = "model.evaluator"
URGENCY = (0,)  # before the trainings that wait: an evaluation is short and shows a result


class Evaluators:
    """Processes (`python -m model.evaluator`) that evaluate what is asked, in order, at most `count` of them at once.

    Each takes a slot of the study and keeps the slot until nothing waits. On a CPU an idle process stays; a process
    with a GPU ends, so that the GPU is free.
    """

    def __init__(self, slots: Slots, count: int, logs: Path, environment: Mapping[str, str]) -> None:
        self._pool, self._closed = ThreadPoolExecutor(count), False
        self._slots, self._environment = slots, environment
        self._waiting: deque[tuple[dict[str, Any], Future[str]]] = deque()
        self._processes = Staying(MODULE, logs=logs)

    def evaluate(self, job: Path, tokens: int) -> Future[str]:
        """Ask for the evaluation of a job's checkpoint. The future holds the line about it, or what went wrong.

        The future runs while a process evaluates the checkpoint, and not while the request waits.
        """
        future: Future[str] = Future()
        self._waiting.append(({"job": str(job), "tokens": tokens}, future))
        self._pool.submit(self._work)
        return future

    def wait(self, seconds: float) -> None:
        """Wait so many seconds. Raises Stopped when the evaluation has ended, or the study is being stopped."""
        wait_unless_stopping(seconds)
        if self._closed:
            raise Stopped("the evaluation has ended")

    def close(self) -> None:
        """Drop the requests that wait, and end the evaluating processes."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._waiting.clear()
        self._processes.close()

    def _work(self) -> None:
        """Take a slot and evaluate until nothing waits."""
        if not self._waiting:
            return
        try:
            with self._slots.take(urgency=URGENCY) as devices:
                environment = {**self._environment, **devices}
                for request, future in self._next():
                    future.set_running_or_notify_cancel()
                    try:
                        future.set_result(self._processes.ask(request, environment))
                    except BaseException as error:
                        future.set_exception(error)
                if devices:
                    self._processes.end_idle(environment)
        except BaseException as error:  # no slot can be had: nobody else would tell those who wait
            for _, future in self._next():
                future.set_exception(error)

    def _next(self) -> Iterator[tuple[dict[str, Any], Future[str]]]:
        """Take what waits, one request after another."""
        while True:
            try:
                yield self._waiting.popleft()
            except IndexError:
                return
