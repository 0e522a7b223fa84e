"""Describe an endless run over packed data: what speed is measured on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from dreamer_study.model.config import DreamerConfig
from dreamer_study.model.training.config import TrainingRun, read_run


def write_run(folder: Path, data: Path, config: DreamerConfig, **training: Any) -> TrainingRun:
    """Describe an endless run over packed data in a new folder, and read its description."""
    folder.mkdir(parents=True)
    recipe = {"tokens": 10**12, **training}
    values = {
        "run_id": folder.name,
        "model": dataclasses.asdict(config),
        "training": recipe,
        "data": str(data),
    }
    (folder / "run.json").write_text(json.dumps(values))
    return read_run(folder)
