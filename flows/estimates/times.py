"""Estimate the time and the device hours of a study from the speeds of its models."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from dreamer_study.flows.estimates.benchmark_sizes import scored_by
from dreamer_study.flows.estimates.rates import Rates
from dreamer_study.flows.jobs.devices import cores, gpus, share_ranks
from dreamer_study.flows.plan.model_plan import PlannedModel
from dreamer_study.flows.plan.preflight import Training, phases
from dreamer_study.flows.study.configuration import Study

# A training step takes three times as long as the forward pass alone.
STEP_TO_FORWARD = 3


@dataclass(frozen=True)
class Times:
    """Elapsed seconds of training and of evaluation on `devices` devices.

    `busy` is the number of seconds that devices are at work, summed over all devices.
    """

    training: float
    evaluation: float
    devices: int
    busy: float

    @property
    def device_hours(self) -> float:
        """The hours for which devices are held, summed over devices, at work or idle."""
        return self.devices * (self.training + self.evaluation) / 3600


def estimate_times(
    study: Study, planned: Sequence[PlannedModel], rates: Rates, devices: int | None = None
) -> Times:
    """Estimate the times of a study on `devices` GPUs, by default the GPUs of this machine.

    The estimate assumes that trainings begin in order as devices become free, each with its ranks;
    that trainings on one GPU share its speed; and that all devices share the evaluations, which
    compute forward passes at the speed of training. Every model needs a rate.
    """
    gpus_used = gpus(study) if devices is None else devices
    per_gpu = study.compute.per_gpu if gpus_used else 1
    slots = study.workers or gpus_used * per_gpu or cores()  # trainings that can run at once

    trained = busy = 0.0
    for trainings in phases(study, planned):
        sharing = 1 if rates.shared else min(per_gpu, len(trainings))
        ranks = share_ranks(study, len(trainings), [gpus_used])
        jobs = [
            (count, _seconds(training, rates) * sharing / count)
            for training, count in zip(trainings, ranks, strict=True)
        ]
        trained += _makespan(jobs, slots)
        busy += sum(count * seconds for count, seconds in jobs) / per_gpu

    scored_tokens = sum(scored.items * scored.tokens for scored in scored_by(study))
    sharing = 1 if rates.shared else per_gpu
    evaluated = sum(
        _evaluations(study, model)
        * scored_tokens
        * sharing
        / (STEP_TO_FORWARD * rates.by_model[model.model_id])
        for model in planned
    )
    machines_devices = -(-slots // per_gpu)
    return Times(trained, evaluated / slots, machines_devices, busy + evaluated / per_gpu)


def _seconds(training: Training, rates: Rates) -> float:
    """Return the seconds that a training takes alone on one device."""
    return training.tokens / rates.by_model[training.model.model_id]


def _evaluations(study: Study, model: PlannedModel) -> int:
    """Count the evaluations of a model.

    Each checkpoint is evaluated with each kind of weights, and the last one at other depths too.
    """
    kinds = 2 if study.evaluation.weights == "both" else 1
    other_depths = model.config.other_depths(study.evaluation.depths)
    seeds = len(study.seeds_of(model.variant))
    trained_to_the_end = 1 if study.training.stop_at(seeds) else seeds
    return trained_to_the_end * (len(study.training.points) * kinds + len(other_depths))


def _makespan(jobs: Sequence[tuple[int, float]], slots: int) -> float:
    """Return the second at which the last job ends if jobs begin in order on `slots` devices.

    A job is a pair of its number of devices and its seconds.
    """
    running: list[tuple[float, int]] = []  # end and devices of each job at work
    free = slots
    now = 0.0
    for wanted, seconds in jobs:
        devices = min(wanted, slots)
        while free < devices:
            now, freed = heapq.heappop(running)
            free += freed
        free -= devices
        heapq.heappush(running, (now + seconds, devices))
    return max(end for end, _ in running)
