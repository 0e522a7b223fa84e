"""Which models a study compares, and training them: every seed to a part of the budget, the best one to the end.

Each run is a process (`python -m model.train`) over a folder of the store, so that it can be killed, resumed, and
carried to another machine. Runs share the packed token stream and nothing else; on a CPU they train side by side, one
thread each.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from flows import progress
from flows.processes import free_device, read_progress, run_module, stopped_on_exit
from flows.study import Study, Variant
from model.accounting import flops_per_token, memory_bytes, parameters
from model.config import DreamerConfig, la
from model.matching import match
from model.screening import screening_loss
from pipeline.store import Output, Store, digest

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
    output: Output


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
    """Train every model of the study; finished runs are taken from the store, interrupted ones go on.

    With several seeds and a screening share, all seeds train that far and the one with the lowest loss over the last
    tenth of it goes on (section 4.1). Raises what the training processes end with.
    """
    jobs = [(model, seed) for model in planned for seed in study.training.seeds]
    stop_at = study.training.stop_at
    with stopped_on_exit():
        if not stop_at:
            outputs = side_by_side(study, jobs, lambda job: _train(study, store, packed, *job))
            return [_run(study, packed, job, "complete", output) for job, output in zip(jobs, outputs, strict=True)]
        screened = side_by_side(study, jobs, lambda job: _train(study, store, packed, *job, stop_at=stop_at))
        groups: dict[str, list[tuple[Planned, int, Output]]] = {}
        for (model, seed), output in zip(jobs, screened, strict=True):
            groups.setdefault(model.model_id, []).append((model, seed, output))
        winners = [
            min(group, key=lambda entry: (screening_loss(entry[2].path / "run"), entry[1])) for group in groups.values()
        ]
        finished = side_by_side(study, winners, lambda w: _train(study, store, packed, w[0], w[1], begun=w[2]))
    final = {(model.model_id, seed): output for (model, seed, _), output in zip(winners, finished, strict=True)}
    runs = []
    for (model, seed), output in zip(jobs, screened, strict=True):
        went_on = final.get((model.model_id, seed))
        runs.append(_run(study, packed, (model, seed), "complete" if went_on else "screened", went_on or output))
    return runs


def _train(
    study: Study,
    store: Store,
    packed: Output,
    model: Planned,
    seed: int,
    stop_at: int | None = None,
    begun: Output | None = None,
) -> Output:
    """One run, to `stop_at` tokens or to the end, on top of what `begun` has done."""
    description = describe_run(study, packed, model, seed)
    label = f"train {model.model_id} seed {seed}" + (" (screening)" if stop_at else "")

    def work(folder: Path) -> dict[str, Any]:
        run = folder / "run"
        if not run.exists() and begun:
            copying = folder / "run.copying"
            shutil.rmtree(copying, ignore_errors=True)
            shutil.copytree(begun.path / "run", copying)
            copying.rename(run)
        run.mkdir(exist_ok=True)
        (run / "run.json").write_text(json.dumps({**description, "data": os.path.relpath(packed.path, run)}, indent=1))
        arguments = [str(run), *(["--stop-at", str(stop_at)] if stop_at else [])]
        with accelerator(study) as environment:
            tick = partial(_tick, label, run, stop_at)
            run_module("model.train", arguments, log=folder / "log.txt", tick=tick, environment=environment)
        return {
            "run_id": description["run_id"],
            "seed": seed,
            "tokens": read_progress(run / "progress.json").get("tokens"),
        }

    progress.report(label, 0.0, "waiting")
    configuration = {**description, "stop_at": stop_at}
    output = store.build("training", VERSION, configuration, [packed, *([begun] if begun else [])], work, resumes=True)
    progress.report(label, 1.0, "done")
    return output


def describe_run(study: Study, packed: Output, model: Planned, seed: int) -> dict[str, Any]:
    """A run's `run.json` but for the place of its data; the run's id follows from all of it."""
    training = study.training.model_dump(
        exclude={"seeds", "screening", "checkpoints", "sequence_length"}, exclude_none=True
    )
    content = {
        "variant": model.variant,
        "depth": model.depth,
        "seed": seed,
        "model": model.config.to_dict(),
        "training": {**training, "seed": seed, "checkpoints": list(study.training.points)},
    }
    return {"run_id": f"{model.model_id}-s{seed}-{digest([content, packed.key])[:8]}", **content}


def _run(study: Study, packed: Output, job: tuple[Planned, int], status: str, output: Output) -> Run:
    return Run(describe_run(study, packed, *job)["run_id"], *job, status, output)


def _tick(label: str, run: Path, stop_at: int | None) -> None:
    said = read_progress(run / "progress.json")
    if said.get("tokens"):
        target = stop_at or said["target"]
        rate = said.get("tokens_per_second") or 0
        left = f"{(target - said['tokens']) / rate:,.0f} s left" if rate else ""
        words = f"{said['tokens']:,} tokens, loss {said['loss']:.3f}, {rate:,.0f} tokens/s, {left}"
        progress.report(label, min(said["tokens"] / target, 0.999), words)


def accelerators() -> int:
    """How many CUDA devices this machine has."""
    import torch

    return torch.cuda.device_count()


def side_by_side(study: Study, jobs: Sequence[T], work: Callable[[T], R]) -> list[R]:
    """Run `work` over the jobs in threads, as many at once as the machine has cores or GPUs; the first error ends all.

    The calling thread only waits, so that signals and cancellations reach it at once.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    on_gpu = study.training.device != "cpu" and accelerators()
    workers = study.workers or (accelerators() if on_gpu else cores)
    pool = ThreadPoolExecutor(workers)
    futures = [pool.submit(work, job) for job in jobs]
    try:
        for future in as_completed(futures):
            future.result()
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def accelerator(study: Study) -> Iterator[dict[str, str]]:
    """Hold one free GPU and yield the environment that shows a child only that one; on a CPU, nothing."""
    devices = accelerators() if study.training.device != "cpu" else 0
    if not devices:
        yield {}
        return
    with free_device(devices) as device:
        yield {"CUDA_VISIBLE_DEVICES": str(device)}
