"""The training speed of each model of a study: tokens per second on one device, without padding.

A rate has one of three origins, which is printed with the rates: runs in the study's store
(`rates_in_store`), training steps that are timed now (`measure.py`), or the FLOPs per second that
the user gives (`rates_at`). There is no table of devices, because such a table would age.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dreamer_study.flows.jobs.devices import gpus
from dreamer_study.flows.plan.model_plan import PlannedModel
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.checkpoints.checksums import newest_values
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import canonical
from dreamer_study.reports.text.numbers import counted, figure

FEWEST_STEPS = 10  # of a run, before its rate counts: the first steps allocate and compile


@dataclass(frozen=True)
class Rates:
    """Tokens per second of each model on one device, by model id, and the origin of the rates.

    `shared` says whether the rates already include the sharing of a GPU by several trainings.
    """

    by_model: Mapping[str, float]
    origin: str
    shared: bool = False

    def unknown(self, planned: Sequence[PlannedModel]) -> list[str]:
        """Return the names of the models without a rate."""
        return [model.name for model in planned if model.model_id not in self.by_model]


@dataclass(frozen=True)
class _Recorded:
    """What a run has recorded: its model, tokens, and the seconds of all devices together."""

    model: str
    batch_tokens: int
    device: str
    tokens: int
    device_seconds: float


def rates_in_store(study: Study, planned: Sequence[PlannedModel], *, on_gpu: bool) -> Rates:
    """Return the mean rates of the runs in the study's store that trained the same models.

    A run counts if its model, its batch and its kind of device are the same as in the plan. The
    device is the GPU of this machine. If the plan is for GPUs and this machine has none, runs on
    any GPU count.
    """
    device = _device(study, on_gpu=on_gpu)
    runs = [
        run
        for run in _recorded_runs(study.store_folder / "runs")
        if run.batch_tokens == study.training.batch_tokens
        and (run.device == device if device else run.device != "cpu")
    ]
    by_content: dict[str, list[_Recorded]] = defaultdict(list)
    for run in runs:
        by_content[run.model].append(run)

    by_model = {}
    used: list[_Recorded] = []
    for model in planned:
        same = by_content.get(canonical(model.config.to_dict()), [])
        if same:
            seconds = sum(run.device_seconds for run in same)
            by_model[model.model_id] = sum(run.tokens for run in same) / seconds
            used += [run for run in same if run not in used]
    devices = " and ".join(sorted({run.device for run in used}))
    return Rates(by_model, f"{counted(len(used), 'run')} in the store, on {devices}", shared=True)


def rates_at(tflops: float, study: Study, planned: Sequence[PlannedModel]) -> Rates:
    """Compute the rates on a device that sustains `tflops` TFLOP/s (1e12 FLOPs per second)."""
    length = study.training.sequence_length
    rates = {model.model_id: tflops * 1e12 / model.training_flops(length) for model in planned}
    return Rates(rates, f"computed from your {figure(tflops)} TFLOP/s (--tflops)")


def _device(study: Study, *, on_gpu: bool) -> str | None:
    """Return the name of this machine's device in the records of runs; None without its GPU."""
    if not on_gpu:
        return "cpu"
    if not gpus(study):
        return None
    import torch

    from dreamer_study.model.ops.device import device_name

    return device_name(torch.device("cuda", 0))


def _recorded_runs(folder: Path) -> list[_Recorded]:
    recorded = [_read_run(run) for run in sorted(folder.glob("*/"))]
    return [run for run in recorded if run is not None]


def _read_run(folder: Path) -> _Recorded | None:
    """Read the record of a run; None if the run is too young or damaged.

    Other commands report the damage.
    """
    try:
        described: dict[str, Any] = json.loads((folder / "run.json").read_bytes())
        state = newest_values(folder / "state", "step", "device", "tokens", "seconds")
        if state is None or state["step"] < FEWEST_STEPS or state["seconds"] <= 0:
            return None
        # trained by several devices at once
        ranks = state.get("ranks") or 1
        return _Recorded(
            model=canonical(described["model"]),
            batch_tokens=described["training"]["batch_tokens"],
            device=state["device"],
            tokens=state["tokens"],
            device_seconds=state["seconds"] * ranks,
        )
    except (InputError, OSError, ValueError, KeyError, TypeError):
        return None
