"""Measure how fast the models of a study train on this machine: real steps, in a temporary folder.

Nothing of it is kept. The steps are those of a run of the study: same batch, same recipe, same
engine. They read the study's packed tokens where these have been made, else random ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dreamer_study.flows.estimates.rates import Rates
from dreamer_study.flows.plan.model_plan import PlannedModel
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import canonical

STEPS = 10
WARM_UP = 2  # steps before those that are timed, which allocate and compile
ENDLESS = 10**12  # tokens of a training that is stopped by hand


def measure_rates(
    study: Study, planned: Sequence[PlannedModel], *, trust_code: bool = False
) -> Rates:
    """Time ten training steps of each model on one device of this machine.

    Raises InputError where a model cannot be trained here, as for want of memory.
    """
    rates: dict[str, float] = {}
    by_content: dict[str, float] = {}  # twins are timed once
    devices = set()
    with TemporaryDirectory(prefix="dreamer-plan-") as temporary:
        root = Path(temporary)
        data = _packed_data(study, planned[0], root)
        for model in planned:
            content = canonical([model.config.to_dict(), study.variant(model.variant).training])
            if content not in by_content:
                write_line(
                    f"measuring {model.name}: {WARM_UP + STEPS} steps of"
                    f" {study.training.batch_tokens:,} tokens"
                )
                folder = root / model.model_id
                _describe_run(folder, study, model, data)
                by_content[content], device = _time_steps(folder, model, trust_code=trust_code)
                devices.add(device)
            rates[model.model_id] = by_content[content]
    return Rates(rates, f"{STEPS} steps of each measured now, on {' and '.join(devices)}")


def _packed_data(study: Study, model: PlannedModel, root: Path) -> Path:
    """Return the packed tokens of the study, or as many random ones as the steps take."""
    try:
        packed = Plan(study).data.packed
        if packed.done:
            return packed.path.resolve()
    except InputError:
        pass  # data sets are still to be fetched
    # imports torch
    from dreamer_study.model.training.random_stream import write_random_stream

    length = study.training.sequence_length
    return write_random_stream(
        root / "data",
        sequence_length=length,
        vocabulary_size=model.config.vocabulary_size,
        rows=(WARM_UP + STEPS + 1) * study.training.batch_tokens // length,
        document_lengths=(length // 8, length),
    )


def _describe_run(folder: Path, study: Study, model: PlannedModel, data: Path) -> None:
    """Write `run.json` of an endless training of a model, and the files of its code."""
    from dreamer_study.model.architectures.code import FOLDER, copy_code, copy_files, digests

    recipe: dict[str, Any] = {**study.training.recipe(0), **study.variant(model.variant).training}
    recipe |= {"tokens": ENDLESS, "checkpoints": []}
    if isinstance(recipe["learning_rate"], Mapping):  # a multiple of another variant's
        recipe["learning_rate"] = study.training.learning_rate
    recipe["optimizer_files"] = digests(study.place, study.optimizer_files(model.variant))
    described = {
        "run_id": model.model_id,
        "variant": model.variant,
        "model": model.config.to_dict(),
        "training": recipe,
        "data": str(data),
    }
    (folder / FOLDER).mkdir(parents=True)
    copy_code(model.config, study.place, folder / FOLDER)
    copy_files(recipe["optimizer_files"], study.place, folder / FOLDER)
    (folder / "run.json").write_text(json.dumps(described))


def _time_steps(folder: Path, model: PlannedModel, *, trust_code: bool) -> tuple[float, str]:
    """Train the run in `folder` for some steps; return tokens per second, and the device's name."""
    import torch

    from dreamer_study.model.ops.device import device_name
    from dreamer_study.model.training.config import read_run
    from dreamer_study.model.training.ranks import TrainingFailed
    from dreamer_study.model.training.trainer import Trainer

    try:
        trainer = Trainer(read_run(folder), trust_code=trust_code)
        for _ in range(WARM_UP):
            trainer.train_step()
        tokens_before = trainer.tokens
        started = time.monotonic()
        for _ in range(STEPS):
            trainer.train_step()
        seconds = time.monotonic() - started
    except (TrainingFailed, torch.OutOfMemoryError) as error:
        raise InputError(f"--measure: {model.name} cannot be trained here: {error}") from error
    return (trainer.tokens - tokens_before) / seconds, device_name(trainer.device)
