"""The exception for bad input: the command prints its text as one line and exits with status 2."""

from __future__ import annotations

import difflib
import errno
import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Bad input; the text is one line that tells what is wrong, where, and what to do."""


class BrokenDownload(InputError):
    """A download that began and broke off: another try may help."""


class Unreachable(InputError):
    """A hub that does not answer at all: another try would take time and hardly help."""


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Words of libraries whose errors of a full disk have no number: `datasets`.
_NO_ROOM_WORDS = ("Not enough disk space",)
# Words of libraries, and of Python, whose errors of missing memory are no MemoryError.
_NO_MEMORY_WORDS = (
    os.strerror(errno.ENOMEM),
    "std::bad_alloc",
    "bad allocation",
    "can't allocate memory",
    "can't start new thread",
    "failed to map segment",
)


def is_full_disk(error: BaseException | None) -> bool:
    """Whether an error, or its cause, says that there is no room for what is to be written.

    Libraries that raise errors of their own give the system's words, but not its number.
    """
    words = (*map(os.strerror, _NO_ROOM), *_NO_ROOM_WORDS)
    while error is not None:
        if getattr(error, "errno", None) in _NO_ROOM:
            return True
        if any(word in str(error) for word in words):
            return True
        error = error.__cause__
    return False


def is_short_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it was made of, says that the system gave no memory."""
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(word in str(error) for word in _NO_MEMORY_WORDS):
            return True
        error = error.__cause__ or error.__context__
    return False


def memory_limit() -> int | None:
    """Return the bytes of addresses that this process may use (`ulimit -v`); None: no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def short_of_memory(error: BaseException) -> str:
    """Say in a line that there is too little memory, why, and what to do."""
    first = next(iter(str(error).strip().splitlines()), "")
    why = f"{type(error).__name__}: {first}" if first else type(error).__name__
    limit = memory_limit()
    advice = "end other programs, or take a machine with more"
    if limit is not None:
        advice = f"this process may use {limit / 1e9:,.1f} GB (ulimit -v); raise that limit"
    return (
        f"too little memory ({why[:200]}): {advice}, and run the same command again; what is"
        " finished is kept"
    )


def check_addresses(wanted: float, what: str) -> None:
    """Raise InputError where this process may not use enough addresses (`ulimit -v`) for `what`.

    Compiled libraries end the process without a word where they get none.
    """
    limit = memory_limit()
    if limit is not None and limit < wanted:
        raise InputError(
            f"{what} takes {wanted / 1e9:g} GB of addresses, most of which are reserved and not"
            f" used, and this process may have {limit / 1e9:,.1f} GB; say `ulimit -v unlimited`,"
            " and limit memory by a control group instead"
        )


@contextmanager
def placing(where: str) -> Iterator[None]:
    """Put `where: ` before the text of every InputError that the block raises."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def nearest(name: object, known: Iterable[str], otherwise: str = "") -> str:
    """Hint at the known name most similar to a mistyped one: `; did you mean 'x'?`.

    Where none is similar, say `otherwise`.
    """
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else otherwise
