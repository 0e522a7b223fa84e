"""What the attentions of one depth are given besides their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from dreamer_study.model.ops import Attended, Visible

History = tuple[tuple[Tensor, Tensor], ...]  # keys and values [T, M, K] of earlier depths
Observer = Callable[[int, str, Attended], None]
# the output of `prepare` for one depth: casts of weights and routing keys, independent of tokens
Weights = Any


class Memory(Protocol):
    """Hold what sequence attention attends over.

    These are the tokens of this forward (Documents), or a cache with earlier ones.
    """

    positions: Tensor  # [B, S]

    def recall(self, depth: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Visible]:
        """Return all keys and values [B, C, M, K] of depth index `depth`.

        Given are those [T, M, K] of the new tokens.
        """


class Context(NamedTuple):
    """Hold what all attentions of one depth are given besides their input."""

    depth: int  # index, from 0
    position_code: Tensor  # [T, 1, P, 2]
    depth_code: Tensor  # of this depth, for the heads of depth attention, [P, 2]
    memory: Memory
