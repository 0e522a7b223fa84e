"""Choose the items of a task where an evaluation has a limit: the same ones for every model.

The first items of a benchmark are often alike: sorted by subject, source or difficulty.
"""

from __future__ import annotations

import hashlib

# Begins what is hashed: another text is another sample. A larger sample holds the smaller ones.
SEED = "items of an evaluation with a limit"


def sampled_items(task: str, items: int, limit: int | None) -> list[int]:
    """Choose the numbers of `limit` of a task's items, ascending; all without a limit.

    >>> sampled_items("mathqa", 1000, 5)
    [33, 132, 511, 555, 765]
    """
    if limit is None or limit >= items:
        return list(range(items))
    return sorted(sorted(range(items), key=lambda number: _place(task, number))[:limit])


def _place(task: str, number: int) -> bytes:
    return hashlib.blake2b(f"{SEED}: {task}/{number}".encode(), digest_size=8).digest()
