"""What a user says about curves beside their path: the options of `dreamer factors`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dreamer_study.pipeline.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Asked:
    """Hold how curves are to be read.

    `items` is a table, or a data frame. `columns` are texts such as `tokens=step*2097152`, `logs`
    are patterns of lines such as `step:{step}/{} val_loss:{loss}`, `metric` is a name such as
    `acc_norm`, or with its filter `exact_match,strict-match`.
    """

    items: Path | pd.DataFrame | None = None
    pattern: str | None = None
    logs: Sequence[str] = ()
    columns: Sequence[str] = ()
    tokens_per_step: str | None = None
    metric: str | None = None

    def step_size(self) -> int | None:
        """Return the tokens of a step; None where they are unknown."""
        if self.tokens_per_step is None:
            return None
        try:
            size = float(self.tokens_per_step.replace("_", "").replace(",", ""))
        except ValueError:
            size = 0.5
        if size != round(size) or size < 1:
            raise InputError(
                f"--tokens-per-step: {self.tokens_per_step} is no whole number of tokens"
            )
        return int(size)
