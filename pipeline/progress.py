"""How a stage tells how far it is: a function of the fraction done (0 to 1) and a few words, by default nobody's."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float, str], None]


def quiet(fraction: float, words: str) -> None:
    """Report progress to nobody."""
