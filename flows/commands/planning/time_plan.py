"""Estimate the time of a study's trainings and evaluations, and the hours of devices they take,
from their FLOPs."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dreamer_study.flows.jobs.devices import cores, gpus, share_ranks
from dreamer_study.flows.plan.model_plan import PlannedModel
from dreamer_study.flows.plan.preflight import Training, phases
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.data_section import BUILTIN
from dreamer_study.pipeline.worlds.tasks import WORLD_BENCHMARKS

BYTES_PER_TOKEN = 3.5
WORLD_BYTES_PER_TOKEN = 3.3  # vocabulary of 512: 3.36, 3.31 and 3.31 in three studies (docs/log.md)
# bytes that an evaluation reads for an item of the built-in world: 244 of sums, 209 in the demo
WORLD_SCORED = 220
GENERATED = 256  # tokens at most, lm-eval's limit where a task has none of its own


@dataclass(frozen=True)
class Device:
    """What one device does, as measured (docs/log.md): useful FLOPs per second in training, and
    seconds at least.

    `depth_seconds` go for a depth of a micro-batch, forward and backward, however small the model
    is: a GPU waits for the host, which starts its kernels. For `busy_seconds` of these it is at
    work, so that trainings can share it. A training begins after `start_seconds`, and an evaluation
    takes `evaluation_seconds` at least.
    """

    name: str
    flops: float
    depth_seconds: float = 0.0
    start_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    busy_seconds: float = 0.0


# By native.c with AVX-512; half as much without a compiler. At the demo's hidden size of 64 7 to 15
# ms a depth.
CPU_CORE = Device("CPU core at 60 GFLOP/s", 60e9, depth_seconds=0.01, evaluation_seconds=0.7)
# Measured on an H100; an H200 reaches 0.30 of the peak in a step of paper-16 (LA), 0.24 (DR) and
# 0.22 (DR+DA), when it is compiled in whole graphs. The 0.20 of DR in pieces leaves some room. At
# hidden size 256 a depth takes 5 ms (LA) to 13 (DR+DA). The second training of a variant needs 19 s
# (LA) to 32 (DR+DA) to start and compile. Eight trainings of that size at once kept an H200 busy,
# which needed 3 ms for a depth of a micro-batch.
GPU = Device(
    "GPU at 198 TFLOP/s",
    0.20 * 989e12,
    0.009,
    start_seconds=30,
    evaluation_seconds=0.3,
    busy_seconds=0.003,
)


@dataclass(frozen=True)
class Scored:
    """What one evaluation of a benchmark reads and generates: items, and tokens for each item."""

    items: int
    tokens: float


# Bytes of prompts are means over the test files (docs/log.md); each choice, and each gold answer,
# reads its prompt.
SCORED = {
    "gsm8k": Scored(1_319, 2 * 240 / BYTES_PER_TOKEN + GENERATED),
    # prompts as long as those of gsm8k
    "math": Scored(5_000, 2 * 240 / BYTES_PER_TOKEN + GENERATED),
    "math_verify": Scored(5_000, 2 * 240 / BYTES_PER_TOKEN + GENERATED),
    "mmlu_math": Scored(1_064, 4 * 230 / BYTES_PER_TOKEN),
    "mathqa": Scored(2_985, 5 * 175 / BYTES_PER_TOKEN),
    "maths-college": Scored(1_000, 5_155 / BYTES_PER_TOKEN),
}


@dataclass(frozen=True)
class Times:
    """Seconds of training and of evaluation, on `devices` devices, and the seconds that devices are
    at work."""

    training: float
    evaluation: float
    devices: int
    busy: float

    @property
    def device_hours(self) -> float:
        """The hours for which the devices are held, at work or not."""
        return self.devices * (self.training + self.evaluation) / 3600


def scored_by(study: Study) -> list[Scored]:
    """List what one evaluation asks of each benchmark of known size; of the built-in world's in one
    entry."""
    limit, found = study.evaluation.limit, []
    if BUILTIN in study.evaluation.benchmarks:
        world = study.data.world
        benchmarks = [
            one for one in WORLD_BENCHMARKS.values() if one["family"] in (None, *world.families)
        ]
        items = len(benchmarks) * min(world.items, limit or world.items)
        found.append(Scored(items, WORLD_SCORED / WORLD_BYTES_PER_TOKEN))
    for benchmark in study.own_benchmarks:
        if scored := SCORED.get(benchmark.name):
            # the limit is that of each task
            most = limit * len(benchmark.tasks) if limit else scored.items
            found.append(replace(scored, items=min(scored.items, most)))
    return found


def unknown_benchmarks(study: Study) -> list[str]:
    """Name the benchmarks whose size is not known."""
    return [benchmark.name for benchmark in study.own_benchmarks if benchmark.name not in SCORED]


def estimate_times(
    study: Study, planned: Sequence[PlannedModel], device: Device, devices: int | None = None
) -> Times:
    """Estimate the times of a study on so many devices of a kind, by default on those here.

    Trainings begin in their order as devices become free, each with its ranks; those that share a
    GPU share its FLOPs. Evaluations share their checkpoints among all devices, and compute forward
    passes as fast as a training.
    """
    training, here = study.training, gpus(study) if devices is None else devices
    per_gpu = study.compute.per_gpu if here else 1
    slots = study.workers or here * per_gpu or cores()  # trainings that can run at once
    length, micro = training.sequence_length, training.micro_batch_tokens or training.batch_tokens

    def phase(trainings: Sequence[Training]) -> tuple[float, float]:
        """Return the seconds until these trainings have ended, and the devices' seconds of work."""
        sharing = min(per_gpu, len(trainings))
        depth_seconds = max(device.depth_seconds, sharing * device.busy_seconds)
        work = [
            (one.end - one.start)
            * max(
                sharing * one.model.training_flops(length) / device.flops,
                one.model.depth * depth_seconds / micro,
            )
            for one in trainings
        ]
        ranks = share_ranks(study, len(trainings), [here])
        jobs = [
            (count, device.start_seconds + seconds / count)
            for count, seconds in zip(ranks, work, strict=True)
        ]
        return _makespan(jobs, slots), sum(count * seconds for count, seconds in jobs) / per_gpu

    spent, trained = map(
        sum, zip(*(phase(trainings) for trainings in phases(study, planned)), strict=True)
    )
    scored_tokens = sum(scored.items * scored.tokens for scored in scored_by(study))
    evaluated = sum(
        _evaluations(study, model)
        * max(
            scored_tokens * model.training_flops(length) / 3 * per_gpu / device.flops,
            device.evaluation_seconds,
        )
        for model in planned
    )
    return Times(spent, evaluated / slots, -(-slots // per_gpu), trained + evaluated / per_gpu)


def _evaluations(study: Study, model: PlannedModel) -> int:
    """Count the evaluations of a model: each checkpoint with each kind of weights, and the last at
    other depths."""
    kinds = 2 if study.evaluation.weights == "both" else 1
    others = model.config.other_depths(study.evaluation.depths)
    seeds = len(study.seeds_of(model.variant))
    return (1 if study.training.stop_at(seeds) else seeds) * (
        len(study.training.points) * kinds + len(others)
    )


def _makespan(jobs: Sequence[tuple[int, float]], slots: int) -> float:
    """Return when the last job ends, where each job in turn begins as soon as enough of the `slots`
    are free."""
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
