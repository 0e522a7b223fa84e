"""Trace training steps of a run by torch's own profiler, for chrome://tracing or ui.perfetto.dev."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from model.training.trainer import Trainer

WARM_UP = 2  # steps before, which allocate and compile


def write_trace(trainer: Trainer, steps: int) -> Path:
    """Take so many steps, write their trace to `trace.json` in the run's folder, and return its path.

    No state is saved: the run itself stays where it was.
    """
    for _ in range(WARM_UP):
        trainer.train_step()
    device = [ProfilerActivity.CUDA] if trainer.device.type == "cuda" else []
    with profile(activities=[ProfilerActivity.CPU, *device]) as recorded:
        for _ in range(steps):
            trainer.train_step()
        if device:
            torch.cuda.synchronize()
    path = trainer.run.folder / "trace.json"
    recorded.export_chrome_trace(str(path))
    return path
