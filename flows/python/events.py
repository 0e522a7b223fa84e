"""What a study that runs tells a Python program: how far it is, and lines for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dreamer_study.flows.progress import reports


@dataclass(frozen=True)
class Progress:
    """How far a piece of work is.

    `work` names the piece, such as "tokens" or "train LA seed 0"; `fraction` is from 0 to 1, and
    1 only when the work is done; `detail` is for a person: the loss, the speed, the time left.

    Example: Progress("train LA seed 0", 0.31, "loss 1.204, 23,013 tokens/s, 24 s left")
    """

    work: str
    fraction: float
    detail: str = ""


@dataclass(frozen=True)
class Note:
    """A line for a person, such as a warning or a decision of the study."""

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
    """Tell a function of every event of the block; without one, write lines to standard error."""
    if on_event is None:
        with reports.listening(reports.Lines()):
            yield
        return

    def write(text: str) -> None:
        on_event(Note(text))

    with reports.listening(_Teller(on_event)), reports.writing_to(write):
        yield
