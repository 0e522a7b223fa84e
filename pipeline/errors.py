"""The exception for bad input: the command prints its text as one line and exits with status 2."""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Bad input; the text is one line that tells what is wrong, where, and what to do."""


class BrokenDownload(InputError):
    """A download that began and broke off: another try may help."""


class Unreachable(InputError):
    """A hub that does not answer at all: another try would take time and hardly help."""


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full_disk(error: BaseException) -> bool:
    """Whether an error says that there is no room for what is to be written.

    Libraries that raise errors of their own give the system's words, but not its number.
    """
    if getattr(error, "errno", None) in _NO_ROOM:
        return True
    return any(os.strerror(number) in str(error) for number in _NO_ROOM)


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
