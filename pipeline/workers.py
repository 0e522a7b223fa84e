"""Worker processes for a stage's independent parts: results in order, nothing left running when the parent is gone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

Run = Callable[[Callable[..., Any], Iterable[tuple]], Iterator[Any]]


@contextmanager
def workers(processes: int) -> Iterator[Run]:
    """A function `run(work, arguments)` that yields `work(*arguments)` for each of `arguments`, in their order.

    One process does it here. More are started anew (not forked: threads of libraries do not survive that), with one
    thread each where a library can be told so; `work` has to be a function of a module.
    """
    if processes <= 1:
        yield lambda work, arguments: (work(*each) for each in arguments)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_begin) as pool:
        try:
            yield lambda work, arguments: pool.map(work, *zip(*arguments, strict=True))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _begin() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["OMP_NUM_THREADS"] = "1"
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
