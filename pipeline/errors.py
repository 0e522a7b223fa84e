"""The exception for bad input: the command prints its text as one line and exits with status 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input; the text is one line that tells what is wrong, where, and what to do."""


def nearest_name(name: object, known: Iterable[str]) -> str:
    """Return the known name that is most similar to a mistyped `name`, or "" when none is similar."""
    return next(iter(difflib.get_close_matches(str(name), list(known), n=1)), "")
