"""The type of progress functions: stages call one with the fraction done (0 to 1) and a few words."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float, str], None]


def quiet(fraction: float, words: str) -> None:
    """Report progress to nobody."""
