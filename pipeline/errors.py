"""The exception for bad input: the command prints its text as one line and exits with status 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Bad input; the text is one line that tells what is wrong, where, and what to do."""


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
