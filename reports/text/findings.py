"""Put factors into findings: large type for a tile, a sentence that stands by itself, and the doubts beside them.

Every sentence has one unit: "times fewer tokens" or "times more tokens", and the ends of its interval in that unit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One factor in words.

    `figure` and `unit` are for large type ("2.4×", "fewer training tokens"), `sentence` stands by itself, `details`
    says what the number is taken over, and `doubts` have to be shown beside the number. `undecided`: the interval
    holds 1.
    """

    variant: str
    depth: int
    figure: str
    unit: str
    interval: str
    sentence: str
    details: str
    doubts: tuple[str, ...]
    undecided: bool = False
