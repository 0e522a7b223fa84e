"""Measure the training speed of a study's models on this machine by real training steps.

The steps are the same as in a run of the study: the same batch, recipe and engine. They read the
study's packed tokens, or random tokens if the study has none yet. They work in a temporary folder.
The rates are kept in the store for further plans on this machine.
"""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dreamer_study.flows.estimates.rates import Rates
from dreamer_study.flows.plan.model_plan import PlannedModel
from dreamer_study.flows.plan.sizes import Kept
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.architectures.code import digests
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import canonical

STEPS = 10
WARM_UP = 2  # steps before those that are timed, which allocate and compile
ENDLESS = 10**12  # tokens of a training that is stopped by hand


def kept_rates(study: Study, planned: Sequence[PlannedModel]) -> dict[str, float]:
    """Read the tokens per second of models that were measured on a core of this machine."""
    rates = {}
    for model in planned:
        values = _kept(study, model).read()
        if values is not None and values["device"] == "cpu":
            rates[model.model_id] = values["tokens_per_second"]
    return rates


def measure_rates(
    study: Study,
    planned: Sequence[PlannedModel],
    *,
    trust_code: bool = False,
    at_most: float = math.inf,
) -> Rates:
    """Time ten training steps of each model on one device of this machine.

    The steps of a model end early after `at_most` seconds. Raises InputError if a model cannot be
    trained here, for example for lack of memory.
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
                rate, device = _time_steps(folder, model, at_most, trust_code=trust_code)
                _kept(study, model).write({"tokens_per_second": rate, "device": device})
                by_content[content] = rate
                devices.add(device)
            rates[model.model_id] = by_content[content]
    return Rates(rates, f"{STEPS} steps of each measured now, on {' and '.join(devices)}")


def _packed_data(study: Study, model: PlannedModel, root: Path) -> Path:
    """Return the packed tokens of the study, or as many random tokens as the steps read."""
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
    from dreamer_study.model.architectures.code import FOLDER, copy_code, copy_files

    recipe = _recipe(study, model)
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


def _recipe(study: Study, model: PlannedModel) -> dict[str, Any]:
    """Return the recipe of an endless training of a model."""
    recipe: dict[str, Any] = {**study.training.recipe(0), **study.variant(model.variant).training}
    recipe |= {"tokens": ENDLESS, "checkpoints": []}
    if isinstance(recipe["learning_rate"], Mapping):  # a multiple of another variant's
        recipe["learning_rate"] = study.training.learning_rate
    recipe["optimizer_files"] = digests(study.place, study.optimizer_files(model.variant))
    return recipe


def _kept(study: Study, model: PlannedModel) -> Kept:
    """Return the place for the rate of a model on this machine, by its name in the network."""
    content = {
        "steps": STEPS,
        "model": model.config.to_dict(),
        "training": _recipe(study, model),
        "machine": platform.node(),
    }
    return Kept(study, content, model.config)


def _time_steps(
    folder: Path, model: PlannedModel, at_most: float, *, trust_code: bool
) -> tuple[float, str]:
    """Train the run in `folder` for some steps; return tokens per second and the device's name."""
    import torch

    from dreamer_study.model.ops.device import device_name
    from dreamer_study.model.training.config import read_run
    from dreamer_study.model.training.ranks import TrainingFailed
    from dreamer_study.model.training.trainer import Trainer

    try:
        trainer = Trainer(read_run(folder), trust_code=trust_code)
        begun = time.monotonic()
        for _ in range(WARM_UP):
            trainer.train_step()
        tokens_before = trainer.tokens
        started = time.monotonic()
        for _ in range(STEPS):
            trainer.train_step()
            if time.monotonic() - begun > at_most:
                break
        seconds = time.monotonic() - started
    except (TrainingFailed, torch.OutOfMemoryError) as error:
        raise InputError(f"--measure: {model.name} cannot be trained here: {error}") from error
    return (trainer.tokens - tokens_before) / seconds, device_name(trainer.device)
