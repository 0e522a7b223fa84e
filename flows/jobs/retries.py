"""What may be tried again, how often, and after how long: decided here alone.

A process says by its exit status whether it would fail again (`local.py`, `check_status`).

Prefect's task engine follows these rules where a study runs as its flow; `with_retries` does where
it runs without Prefect. A step keeps its place meanwhile: a training that is tried again resumes
from its newest state, on the devices that it holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dreamer_study.flows.jobs import Failed
from dreamer_study.flows.study.configuration import Compute
from dreamer_study.pipeline.errors import BrokenDownload, InputError, Unreachable

Result = TypeVar("Result")

DOWNLOAD_DELAYS = (2.0, 10.0, 60.0)
"""Seconds before each further try of a download that has broken off."""


@dataclass(frozen=True)
class Retries:
    """How often a step is tried again, and the seconds before each of these tries."""

    count: int = 0
    delays: tuple[float, ...] = ()

    def delay(self, tried: int) -> float:
        """Return the seconds to wait after the step was tried again `tried` times."""
        return self.delays[tried] if tried < len(self.delays) else 0.0


def retries_of(kind: str, compute: Compute) -> Retries:
    """Return how often a step of a kind is tried again."""
    if kind == "download":
        return Retries(len(DOWNLOAD_DELAYS), DOWNLOAD_DELAYS)
    if kind in ("training", "evaluation"):
        return Retries(compute.retries)
    return Retries()


def may_pass(error: object) -> bool:
    """Whether another try may help against an error.

    It may where a download broke off, and where the process of a job was killed, fell silent, or
    ended by a defect. It does not help against bad input, a stop, a full disk, memory that was
    short twice, a loss that is not finite, a scheduler that is lost, or a worker that is lost,
    whose jobs Dask itself repeats.
    """
    if isinstance(error, Failed):
        return error.may_pass
    return isinstance(error, BrokenDownload)


def resumable(fetch: Callable[[], Result]) -> Callable[[], Result]:
    """Let a hub that falls silent in the middle of a download be tried again.

    A hub that does not answer at the first try is no broken download: that ends in seconds.
    """
    has_begun = False

    def attempt() -> Result:
        nonlocal has_begun
        try:
            return fetch()
        except BrokenDownload:
            has_begun = True
            raise
        except InputError as error:
            if has_begun and _is_unreachable(error):
                raise BrokenDownload(str(error)) from error
            raise

    return attempt


def _is_unreachable(error: BaseException | None) -> bool:
    """Whether an error, or one that it was made of, says that the hub does not answer."""
    while error is not None:
        if isinstance(error, Unreachable):
            return True
        error = error.__cause__
    return False


def said_again(error: object, again: int, most: int) -> str:
    """Say that a step is tried again for the `again`-th time."""
    return f"{error}; tried again ({again} of {most})"


def with_retries(
    work: Callable[[], Result], retries: Retries, say: Callable[[str], object]
) -> Result:
    """Call `work` until it returns, tries are used up, or another try does not help.

    `say` is given a line before each further try. Raises the last error of `work`.
    """
    for tried in range(retries.count):
        try:
            return work()
        except Exception as error:
            if not may_pass(error):
                raise
            say(said_again(error, tried + 1, retries.count))
            time.sleep(retries.delay(tried))
    return work()
