"""Put factors into findings: large type for a tile, a sentence that stands by itself, and the doubts beside them.

Every sentence has one unit: "times fewer tokens" or "times as many tokens", and the ends of its interval in that unit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One factor in words.

    `figure` and `unit` are for large type ("2.4×", "fewer training tokens"), `sentence` says the factor or what it is a
    mean over, and `doubts` have to be shown beside the number.
    """

    variant: str
    depth: int
    figure: str
    unit: str
    interval: str
    sentence: str
    doubts: tuple[str, ...]
