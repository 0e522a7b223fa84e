"""The states of all generators of random numbers that a model may draw from by a global name.

Those of torch, of Python's `random` and of numpy; saved with a run, so that a model which draws
from any of them resumes to the bit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


def seed_all(seed: int) -> None:
    """Seed every generator."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states as tensors by name, with that of a GPU where the device is one."""
    _, words, normal = random.getstate()
    _, keys, place, has_normal, of_numpy = np.random.get_state(legacy=True)
    states = {
        "cpu": torch.get_rng_state(),
        "python": torch.tensor(words),
        "python_normal": _optional(normal),
        "numpy": torch.tensor([*keys.tolist(), place]),
        "numpy_normal": _optional(of_numpy if has_normal else None),
    }
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore what `random_states` has returned; states of before hold torch's alone."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
    if "python" in states:
        normal = states["python_normal"].tolist()
        random.setstate((3, tuple(states["python"].tolist()), normal[0] if normal else None))
        *keys, place = states["numpy"].tolist()
        normal = states["numpy_normal"].tolist()
        np.random.set_state(("MT19937", keys, place, len(normal), normal[0] if normal else 0.0))


@contextmanager
def keeping_random_states() -> Iterator[None]:
    """Leave the generators of the CPU as they were before the block."""
    cpu = torch.device("cpu")
    before = random_states(cpu)
    try:
        yield
    finally:
        restore_random_states(before, cpu)


def _optional(number: float | None) -> Tensor:
    """Hold a number that may be missing: the second of a pair of normal numbers."""
    return torch.tensor([] if number is None else [number], dtype=torch.float64)
