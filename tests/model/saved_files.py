"""Write by hand what a training saves: models, a state's values with the log that they vouch for,
changed files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dreamer_study.model.checkpoints.checksums import write_checksums
from dreamer_study.model.checkpoints.models import save_weights
from dreamer_study.model.dreamer import Dreamer
from dreamer_study.model.training.step_log import StepLog


def save_model(folder: Path, model: Dreamer, *content: Any, **options: Any) -> None:
    """Save the configuration and the weights of a model in a new folder, as training saves a
    checkpoint."""
    save_weights(folder, model.config, model.state_dict(), *content, **options)


def rewrite(path: Path, values: Any) -> None:
    """Write a file of a checkpoint or a state anew, JSON unless `values` is text, with its
    checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(values if isinstance(values, str) else json.dumps(values))
    write_checksums(path.parent)


def write_values(
    folder: Path, steps: Sequence[tuple[int, int, float]], ranks: int | None = None
) -> None:
    """Write `steps.csv` of a run, with step, tokens and loss of each step, and the values of its
    newest state."""
    (folder / "steps.csv").unlink(missing_ok=True)
    log = StepLog(folder / "steps.csv", 0)
    for step in steps:
        log.add(*step, 0.1, 1.0, 1.0)
    tokens = steps[-1][1] if steps else 0
    rate = {"device": "cpu", "tokens_per_second": 1.0, "mfu": None}
    recorded = {
        "origin": {"run_id": folder.name},
        "tokens": tokens,
        "seconds": 1.0,
        "stream_hash": "a",
        "ranks": ranks,
        **rate,
    }
    rewrite(folder / "state" / f"{tokens:015d}" / "values.json", {**recorded, **log.sync()})
    log.close()
