"""Estimate the time of a study's trainings and evaluations, the hours of devices they take, and what those cost.

A pace says how fast models train and are evaluated, computed from their FLOPs.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flows.jobs.devices import concurrency, gpus, share_ranks
from flows.models import PlannedModel
from flows.study.configuration import BUILTIN, Study
from model.accounting import flops_per_token, training_flops_per_token
from pipeline.benchmarks.table import resolve_benchmark
from pipeline.worlds.tasks import WORLD_BENCHMARKS

# Useful FLOPs per second in training, as measured (docs/log.md): small models on a CPU core, 15 % of a GPU's peak.
CPU_CORE_FLOPS = 60e9  # with native.c on a processor with AVX-512; about half of that without a compiler
GPU_FLOPS = 0.15 * 989e12
BYTES_PER_TOKEN = 3.5
WORLD_BYTES_PER_TOKEN = 3.3  # vocabulary of 512: 3.36, 3.31 and 3.31 in three studies (docs/log.md)
WORLD_SCORED = 220  # bytes that an evaluation reads for an item of the built-in world: 244 of sums, 209 in the demo
GENERATED = 256  # tokens at most, lm-eval's limit where a task has none of its own


@dataclass(frozen=True)
class Scored:
    """What one evaluation of a benchmark reads and generates: items, and tokens for each item."""

    items: int
    tokens: float


# Bytes of prompts are means over the test files (docs/log.md); each choice, and each gold answer, reads its prompt.
SCORED = {
    "gsm8k": Scored(1_319, 2 * 240 / BYTES_PER_TOKEN + GENERATED),
    "math": Scored(5_000, 2 * 240 / BYTES_PER_TOKEN + GENERATED),  # prompts as long as those of gsm8k
    "math_verify": Scored(5_000, 2 * 240 / BYTES_PER_TOKEN + GENERATED),
    "mmlu_math": Scored(1_064, 4 * 230 / BYTES_PER_TOKEN),
    "mathqa": Scored(2_985, 5 * 175 / BYTES_PER_TOKEN),
    "maths-college": Scored(1_000, 5_155 / BYTES_PER_TOKEN),
}


@dataclass(frozen=True)
class Pace:
    """Tokens per second that one device trains of each model, and seconds it takes to evaluate a checkpoint of it."""

    training: Mapping[str, float]
    evaluation: Mapping[str, float]
    source: str


@dataclass(frozen=True)
class Times:
    """Seconds of training and of evaluation, on `devices` devices, and the seconds that devices are at work."""

    training: float
    evaluation: float
    devices: int
    busy: float

    @property
    def device_hours(self) -> float:
        """The hours for which the devices are held, at work or not."""
        return self.devices * (self.training + self.evaluation) / 3600


def pace_of_flops(study: Study, planned: Sequence[PlannedModel], *, on_gpu: bool) -> Pace:
    """Compute the pace from the models' FLOPs; an evaluation computes its forward passes as fast as a training."""
    rate, length = GPU_FLOPS if on_gpu else CPU_CORE_FLOPS, study.training.sequence_length
    scored = scored_tokens(study)
    kind = f"GPU at {GPU_FLOPS / 1e12:.0f} TFLOP/s" if on_gpu else f"CPU core at {CPU_CORE_FLOPS / 1e9:.0f} GFLOP/s"
    return Pace(
        {model.model_id: rate / training_flops_per_token(model.config, length) for model in planned},
        {model.model_id: scored * flops_per_token(model.config, length) / rate for model in planned},
        kind,
    )


def scored_tokens(study: Study) -> float:
    """Estimate the tokens that one evaluation reads and generates, without benchmarks of unknown size."""
    return sum(scored.items * scored.tokens for scored in _scored(study))


def scored_items(study: Study) -> int:
    """Count the items that one evaluation asks, without benchmarks of unknown size."""
    return sum(scored.items for scored in _scored(study))


def _scored(study: Study) -> list[Scored]:
    """List what one evaluation asks of each benchmark of known size; of the built-in world's in one entry."""
    limit, found = study.evaluation.limit, []
    for entry in study.evaluation.benchmarks:
        if entry == BUILTIN:
            world = study.data.world
            benchmarks = [one for one in WORLD_BENCHMARKS.values() if one["family"] in (None, *world.families)]
            items = len(benchmarks) * min(world.items, limit or world.items)
            found.append(Scored(items, WORLD_SCORED / WORLD_BYTES_PER_TOKEN))
        elif scored := SCORED.get((benchmark := resolve_benchmark(entry)).name):
            most = limit * len(benchmark.tasks) if limit else scored.items  # the limit is that of each task
            found.append(replace(scored, items=min(scored.items, most)))
    return found


def unknown_benchmarks(study: Study) -> list[str]:
    """Name the benchmarks whose size is not known."""
    named = [resolve_benchmark(entry).name for entry in study.evaluation.benchmarks if entry != BUILTIN]
    return [name for name in named if name not in SCORED]


def estimate_times(study: Study, planned: Sequence[PlannedModel], pace: Pace, devices: int | None = None) -> Times:
    """Estimate the times of a study on so many `devices` (default: those here).

    Trainings begin in their order as devices become free, each with its ranks. Evaluations share their checkpoints
    among all devices.
    """
    training = study.training
    slots = devices or concurrency(study)
    found = [devices if devices is not None else gpus(study)]
    seeds = training.seeds
    first = training.stop_at or training.tokens
    runs = [model for model in planned for _ in seeds]
    jobs = _jobs(runs, share_ranks(study, len(runs), found), first, pace)
    spent, trained = _makespan(jobs, slots), _work(jobs)
    if training.stop_at:
        jobs = _jobs(planned, share_ranks(study, len(planned), found), training.tokens - first, pace)
        spent, trained = spent + _makespan(jobs, slots), trained + _work(jobs)
    complete = 1 if training.stop_at else len(seeds)
    evaluated = sum(pace.evaluation[model.model_id] * _evaluations(study, model) * complete for model in planned)
    return Times(spent, evaluated / slots, slots, trained + evaluated)


def _evaluations(study: Study, model: PlannedModel) -> int:
    """Count the evaluations of one run: each checkpoint with each kind of weights, and the last at other depths."""
    kinds = 2 if study.evaluation.weights == "both" else 1
    others = [depth for depth in study.evaluation.depths if depth != model.depth] if model.config.recurrent else []
    return len(study.training.points) * kinds + len(others)


def _jobs(runs: Sequence[PlannedModel], ranks: Sequence[int], tokens: int, pace: Pace) -> list[tuple[int, float]]:
    """List devices and seconds of each run that trains `tokens` tokens."""
    return [(count, tokens / (pace.training[model.model_id] * count)) for model, count in zip(runs, ranks, strict=True)]


def _work(jobs: Sequence[tuple[int, float]]) -> float:
    return sum(devices * seconds for devices, seconds in jobs)


def _makespan(jobs: Sequence[tuple[int, float]], slots: int) -> float:
    """Return when the last job ends, where each job in turn begins as soon as enough of the `slots` are free."""
    running: list[tuple[float, int]] = []  # end and devices of each job at work
    free, now = slots, 0.0
    for devices, seconds in jobs:
        devices = min(devices, slots)
        while free < devices:
            now, freed = heapq.heappop(running)
            free += freed
        free -= devices
        heapq.heappush(running, (now + seconds, devices))
    return max(end for end, _ in running)
