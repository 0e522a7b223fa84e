"""Call functions that end their process in copies of one that has imported everything."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context


def exit_status(function: Callable[..., object], *arguments: object) -> int | None:
    """Call a function in a process of its own; return the status with which that process ends."""
    return _original().submit(_call, function, *arguments).result()


@cache
def _original() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"))


def _call(function: Callable[..., object], *arguments: object) -> int | None:
    process = get_context("fork").Process(target=function, args=arguments)
    process.start()
    process.join()
    return process.exitcode
