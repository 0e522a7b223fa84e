"""Compute 64-bit random numbers from whole numbers (SplitMix64), on any machine alike."""

from __future__ import annotations

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)


def random_numbers(seed: int, first: int, count: int) -> np.ndarray:
    """Compute the random numbers uint64 [count] of the documents `first:first + count`."""
    with np.errstate(over="ignore"):
        state = np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)
        return _mixed(state * _STEP + _mixed(np.array([seed % 2**64], np.uint64)))


def scattered(ids: np.ndarray) -> np.ndarray:
    """Compute a random number uint64 [D] from each id: equal ids have equal numbers."""
    with np.errstate(over="ignore"):
        return _mixed(ids + _STEP)


def _mixed(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
