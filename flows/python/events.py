"""The events that a running study sends to a Python program: progress, and notes to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dreamer_study.flows.progress import reports


@dataclass(frozen=True)
class Progress:
    """The progress of one piece of work.

    `work` names the piece of work, such as "tokens" or "train LA seed 0". `fraction` is between 0
    and 1, and reaches 1 only when the work is done. `detail` is text for a reader: the loss, the
    speed, the time left.

    Example: Progress("train LA seed 0", 0.31, "loss 1.204, 23,013 tokens/s, 24 s left")
    """

    work: str
    fraction: float
    detail: str = ""


@dataclass(frozen=True)
class Note:
    """A line of `text` for a reader, such as a warning or a decision of the study."""

    text: str


Event = Progress | Note
OnEvent = Callable[[Event], object]


class _Teller:
    """Hands every report to a function as an event."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event

    def update(self, key: str, fraction: float, words: str) -> None:
        self._on_event(Progress(key, fraction, words))


@contextmanager
def telling(on_event: OnEvent | None) -> Iterator[None]:
    """Send every event of the block to a function, or lines to standard error without one."""
    if on_event is None:
        with reports.listening(reports.Lines()):
            yield
        return

    def write(text: str) -> None:
        on_event(Note(text))

    with reports.listening(_Teller(on_event)), reports.writing_to(write):
        yield
