"""How a study is run: to which stage, and what its user has allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Until = Literal["prepare", "train", "evaluate", "report"]


@dataclass(frozen=True)
class Options:
    """The last stage that a run does, and what its user has allowed."""

    until: Until = "report"
    accept_code_change: bool = False
    trust_code: bool = False


WHOLE = Options()
"""To the report, and nothing allowed."""
