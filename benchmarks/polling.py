"""Look at something again and again while a block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def polled(look: Callable[[], object], seconds: float) -> Iterator[None]:
    """Call `look` in a thread every so many seconds during the block, and once more at its end."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(seconds):
            look()
        look()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
