"""Which models a study compares, and training them: every seed to a part of the budget, the best one to the end.

Each run is a process (`python -m model.train`) over a folder of the store, so that it can be killed, resumed, and
carried to another machine. Runs share the packed token stream and nothing else; on a CPU they train side by side, one
thread each. On more GPUs than runs, each run has several: as many processes (ranks) that train it together.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from flows.running import progress
from flows.running.processes import (
    cores,
    free_devices,
    read_progress,
    refuse_when_stopping,
    run_module,
    stopped_on_exit,
)
from flows.study.configuration import Study, Variant
from model.accounting import flops_per_token, memory_bytes, parameters
from model.config import DreamerConfig, la
from model.matching import match
from model.training.config import HOW_IT_RUNS
from model.training.records import screening_loss
from pipeline.errors import InputError
from pipeline.storage.store import Output, Store, digest

VERSION = 1
FAMILIES: dict[str, dict[str, bool]] = {  # how a family differs from the layered baseline
    "LA": {},
    "DR": {"recurrent": True},
    "DR+DA": {"recurrent": True, "depth_attention": True},
}

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Planned:
    """One model of the study with the resources that matching gave it (Table 1)."""

    model_id: str
    variant: str
    depth: int
    config: DreamerConfig
    parameters: int
    flops_per_token: float
    memory_bytes: int


@dataclass(frozen=True)
class Run:
    """One trained model: `status` is 'complete', or 'screened' when another seed of the model went on."""

    run_id: str
    planned: Planned
    seed: int
    status: str
    folder: Path
    output: Output  # of all seeds of the model


def plan_models(study: Study, vocabulary_size: int) -> list[Planned]:
    """Every model of the study, matched to LA of its depth (section 3.8). Raises InputError where that cannot be."""
    planned = []
    for depth in study.models.depths:
        sizes = {"vocabulary_size": vocabulary_size, "sequence_length": study.training.sequence_length}
        baseline = la(**{"depth": depth, **study.models.baseline, **sizes})
        for variant in study.models.variants:
            config = _variant(variant, baseline)
            planned.append(
                Planned(
                    model_id=f"{variant.name}-{depth}",
                    variant=variant.name,
                    depth=depth,
                    config=config,
                    parameters=parameters(config),
                    flops_per_token=flops_per_token(config),
                    memory_bytes=memory_bytes(config),
                )
            )
    return planned


def _variant(variant: Variant, baseline: DreamerConfig) -> DreamerConfig:
    changes = {**FAMILIES[variant.family], **variant.overrides}
    if not changes:
        return baseline
    config = DreamerConfig.from_dict({**baseline.to_dict(), **changes})
    return match(baseline, config) if variant.match else config


def train_models(study: Study, store: Store, packed: Output, planned: Sequence[Planned]) -> list[Run]:
    """Train every model of the study; finished models are taken from the store, interrupted ones go on.

    With several seeds and a screening share, all seeds train that far and the one with the lowest loss over the last
    tenth of it goes on (section 4.1). Raises what the training processes end with.
    """
    slots = Slots(study)
    with stopped_on_exit():
        outputs = side_by_side(planned, lambda model: _train_model(study, store, packed, model, slots))
    return [
        Run(
            run_id=describe_run(study, packed, model, seed)["run_id"],
            planned=model,
            seed=seed,
            status="complete" if seed in output.results["chosen"] else "screened",
            folder=output.path / f"seed{seed}",
            output=output,
        )
        for model, output in zip(planned, outputs, strict=True)
        for seed in study.training.seeds
    ]


def _train_model(study: Study, store: Store, packed: Output, model: Planned, slots: Slots) -> Output:
    """All seeds of one model: a folder of the store with a run folder for each."""
    seeds, stop_at = study.training.seeds, study.training.stop_at
    runs = [describe_run(study, packed, model, seed) for seed in seeds]
    models = len(study.models.depths) * len(study.models.variants)
    screening, ending = (ranks_of_each(study, models * count) for count in (len(seeds), 1 if stop_at else len(seeds)))

    def work(folder: Path) -> dict[str, Any]:
        for run in runs:
            place = folder / f"seed{run['seed']}"
            place.mkdir(exist_ok=True)
            (place / "run.json").write_text(json.dumps({**run, "data": os.path.relpath(packed.path, place)}, indent=1))
        chosen = _choose(folder, seeds, stop_at, lambda seed: _train(model, folder, seed, stop_at, slots, screening))
        side_by_side(chosen, lambda seed: _train(model, folder, seed, None, slots, ending))
        return {"chosen": chosen, "run_ids": [run["run_id"] for run in runs]}

    configuration = {"runs": [_identity(run) for run in runs], "stop_at": stop_at}
    return store.build("training", VERSION, configuration, [packed], work, resumes=True)


def _choose(folder: Path, seeds: list[int], stop_at: int | None, screen: Callable[[int], None]) -> list[int]:
    """The seeds that go on: all, or after the screening of each the one with the lowest loss. Decided once."""
    if not stop_at:
        return seeds
    decided = folder / "chosen.json"
    if not decided.exists():
        side_by_side(seeds, screen)
        best = min(seeds, key=lambda seed: (screening_loss(folder / f"seed{seed}"), seed))
        decided.with_suffix(".tmp").write_text(json.dumps([best]))
        decided.with_suffix(".tmp").rename(decided)
    return json.loads(decided.read_text())


def _train(model: Planned, folder: Path, seed: int, stop_at: int | None, slots: Slots, ranks: int) -> None:
    """One training by `ranks` processes, to `stop_at` tokens or to the end."""
    label = f"{'screen' if stop_at else 'train'} {model.model_id} seed {seed}"
    run = folder / f"seed{seed}"
    progress.report(label, 0.0, "waiting")
    with slots.some(ranks) as environment:
        arguments = [str(run), *(["--stop-at", str(stop_at)] if stop_at else [])]
        goal = stop_at or _budget(run)
        tick = partial(_tick, label, run, goal)
        log = folder / f"seed{seed}.log"
        run_module("model.train", arguments, log=log, tick=tick, environment=environment, ranks=ranks)
    progress.report(label, 1.0, "done")


def describe_run(study: Study, packed: Output, model: Planned, seed: int) -> dict[str, Any]:
    """A run's `run.json` but for the place of its data; the run's id follows from what decides its results."""
    content = {
        "variant": model.variant,
        "depth": model.depth,
        "seed": seed,
        "model": model.config.to_dict(),
        "training": study.training.recipe(seed),
    }
    return {"run_id": f"{model.model_id}-s{seed}-{digest([_identity(content), packed.key])[:8]}", **content}


def _identity(run: dict[str, Any]) -> dict[str, Any]:
    """A run's description without what only says how it is computed."""
    training = {name: value for name, value in run["training"].items() if name not in HOW_IT_RUNS}
    return {**run, "training": training}


def _budget(run: Path) -> int:
    """The token budget in a run's `run.json`."""
    return json.loads((run / "run.json").read_text())["training"]["tokens"]


def _tick(label: str, run: Path, goal: int) -> None:
    said = read_progress(run / "progress.json")
    if said.get("tokens"):
        rate = said.get("tokens_per_second") or 0
        left = f"{(goal - said['tokens']) / rate:,.0f} s left" if rate else ""
        words = f"{said['tokens']:,} tokens, loss {said['loss']:.3f}, {rate:,.0f} tokens/s, {left}"
        note = f"; {said['note']}" if said.get("note") else ""
        progress.report(label, min(said["tokens"] / goal, 0.999), words + note)


def accelerators(study: Study) -> int:
    """How many CUDA devices the study may use on this machine."""
    import torch

    return torch.cuda.device_count() if study.training.device != "cpu" else 0


def device_names(count: int) -> list[str]:
    """The names under which CUDA_VISIBLE_DEVICES knows the `count` devices that this process sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:count] if visible else [str(number) for number in range(count)]


def devices(study: Study) -> int:
    """How many processes run at once: the study's `workers`, else one for each GPU, else one for each core."""
    return study.workers or accelerators(study) or cores()


def ranks_of_each(study: Study, runs: int) -> int:
    """How many processes train each of so many runs: what the study says, else the GPUs divided by the runs.

    Never fewer than one, nor more than a batch has rows; on a CPU one. Raises InputError if the study wants more GPUs
    for a run than the machine has.
    """
    found, wanted, training = accelerators(study), study.training.ranks, study.training
    if wanted and found and wanted > found:
        raise InputError(f"training.ranks is {wanted}, but this machine has {found} GPUs")
    shared = devices(study) // runs if found else 1
    return wanted or max(1, min(shared, training.batch_tokens // training.sequence_length))


class Slots:
    """As many processes at once as the machine has devices for; a GPU is held by one process at a time."""

    def __init__(self, study: Study) -> None:
        self.accelerators, self.places = accelerators(study), devices(study)
        self._free, self._changed = self.places, threading.Condition()

    @contextmanager
    def some(self, wanted: int) -> Iterator[dict[str, str]]:
        """Wait for `wanted` places to run and yield the environment that shows their processes only their devices."""
        taken = min(wanted, self.places)
        with self._changed:
            while self._free < taken:
                refuse_when_stopping()
                self._changed.wait(0.5)
            self._free -= taken
        try:
            if not self.accelerators:
                yield {}
                return
            with free_devices(device_names(self.accelerators), wanted) as found:
                yield {"CUDA_VISIBLE_DEVICES": ",".join(found)}
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()

    def one(self) -> AbstractContextManager[dict[str, str]]:
        """Wait for a place for one process, as `some` does."""
        return self.some(1)


def side_by_side(jobs: Sequence[T], work: Callable[[T], R]) -> list[R]:
    """Run `work` over all jobs, each in a thread that waits for its turn where it needs one; the first error ends all.

    The calling thread only waits, so that signals and cancellations reach it at once.
    """
    if not jobs:
        return []
    pool = ThreadPoolExecutor(len(jobs))
    futures = [pool.submit(work, job) for job in jobs]
    try:
        for future in as_completed(futures):
            future.result()
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
