"""Which seed goes on: all train a part of the budget, the one with the better loss continues (section 4.1)."""

from __future__ import annotations

import csv
from pathlib import Path


def screening_loss(run: Path) -> float:
    """Mean training loss over the last tenth of the tokens a run has seen, read from its `steps.csv`."""
    with (run / "steps.csv").open(newline="") as file:
        steps = [(int(row["tokens"]), float(row["loss"])) for row in csv.DictReader(file)]
    late = [loss for tokens, loss in steps if tokens >= 0.9 * steps[-1][0]]
    return sum(late) / len(late)
