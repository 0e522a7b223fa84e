"""Estimate the needs of a study from its configuration and the contents of its store."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dreamer_study.flows.estimates.benchmark_sizes import scored_by, unknown_benchmarks
from dreamer_study.flows.estimates.data_needs import DataNeeds, data_needs
from dreamer_study.flows.estimates.measure import STEPS, kept_rates, measure_rates
from dreamer_study.flows.estimates.price import check_price
from dreamer_study.flows.estimates.rates import Rates, rates_at, rates_in_store
from dreamer_study.flows.estimates.slow import slow_warnings
from dreamer_study.flows.estimates.times import STEP_TO_FORWARD, Times, estimate_times
from dreamer_study.flows.jobs.devices import gpus
from dreamer_study.flows.plan.elsewhere import costs_elsewhere
from dreamer_study.flows.plan.model_plan import PlannedModel, check_trusted
from dreamer_study.flows.plan.preflight import (
    bytes_written,
    check_data,
    phases,
    state_bytes,
    study_warnings,
)
from dreamer_study.flows.plan.sizes import sized_models
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.disk import free_bytes
from dreamer_study.flows.progress.study_lock import LOCK
from dreamer_study.flows.running.benchmark_cards import (
    DEMO_NOISE,
    benchmark_cards,
    significance,
    usual_seeds,
)
from dreamer_study.flows.running.data_rows import benchmark_levels
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.accounting import Resources
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.source import notices
from dreamer_study.sql.statistics.resolution import Noise, smallest_ratio

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Machine:
    """The machine that a study will run on, as far as the user describes the machine.

    `gpus` is the number of GPUs, by default the GPUs of this machine. `tflops` is the TFLOP/s that
    one GPU sustains. With `measure`, training steps are timed here. `price` is the price of one
    hour of a GPU or core.
    """

    gpus: int | None = None
    tflops: float | None = None
    measure: bool = False
    price: float | None = None


@dataclass(frozen=True)
class Resolution:
    """The smallest token ratio above 1 that four of five such studies can detect.

    `ratio` is infinite with one seed, since one seed shows no spread. `with_one_more` is the
    smallest ratio with one seed more than `seeds`.
    """

    seeds: int
    ratio: float
    with_one_more: float
    noise: Noise


@dataclass(frozen=True)
class Disk:
    """The bytes of checkpoints, of states to resume from and of data, and the free bytes."""

    checkpoints: float
    states: float
    data: float
    free: int


@dataclass(frozen=True)
class WorkLeft:
    """The work that is left of a study that was started.

    During a search for learning rates, `of_search` is true, and the trainings are the trainings of
    the search. `absent` names the data sets that are not on this machine; the rest is unknown
    without them. None marks a number that is not known yet.
    """

    trainings: int | None = None
    of_trainings: int | None = None
    of_search: bool = False
    evaluations: int | None = None
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Estimate:
    """The models, data, disk and time that a study needs, and the ratio that it can detect.

    `table()` and `needs()` return the numbers. `models` are matched to the baseline of their depth.
    `elsewhere` has the costs of variants that other studies have trained, by variant and depth.
    `flops` are the FLOPs of all trainings together. `device` is "GPU" or "core". `times` is None if
    the speed of a model is unknown. `left` is None for a study that was not started. Once the data
    are prepared, `benchmarks` has the card of each benchmark: ceiling, floor, the ratio that it
    detects, and the seconds of an evaluation. `warnings` are lines about the study, and `notices`
    lines about the licences of its sources.
    """

    study: Study
    models: tuple[PlannedModel, ...]
    elsewhere: Mapping[str, Mapping[int, Resources]]
    data: DataNeeds
    flops: float
    device: str
    rates: Rates
    times: Times | None
    price: float | None
    resolution: Resolution
    disk: Disk
    left: WorkLeft | None
    benchmarks: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]
    notices: tuple[str, ...]

    @property
    def cost(self) -> float | None:
        """The price of all GPU or core hours; None if the price or the time is unknown."""
        if self.price is None or self.times is None:
            return None
        return self.times.device_hours * self.price

    def table(self) -> pd.DataFrame:
        """Return a data frame with one row for each model: its sizes, its match and its speed.

        `parameters` counts all weights. `flops_per_token` are the FLOPs of a forward pass. The two
        columns that end in `_to_baseline` are differences as shares of the baseline's number, and 0
        if both are equal. `memory_bytes` covers weights, gradients and optimizer states.
        `tokens_per_second` is the training speed on one device, and null if unknown.
        """
        # takes half a second, so the other methods do not import it
        import pandas as pd

        return pd.DataFrame([self._row(model) for model in self.models])

    def _row(self, model: PlannedModel) -> dict[str, object]:
        baseline = self.baseline_of(model)
        return {
            "model": model.name,
            "variant": model.variant,
            "depth": model.depth,
            "parameters": model.parameters,
            "parameters_to_baseline": model.parameters / baseline.parameters - 1,
            "flops_per_token": model.flops_per_token,
            "flops_to_baseline": model.flops_per_token / baseline.flops_per_token - 1,
            "memory_bytes": model.memory_bytes,
            "tokens_per_second": self.rates.by_model.get(model.model_id, math.nan),
        }

    def needs(self) -> dict[str, float | str | None]:
        """Return the needs of the whole study by name; an unknown number is None.

        `tokens` and `epochs` are numbers of one training. `training_flops` are the FLOPs of all
        trainings. `training_seconds` and `evaluation_seconds` are elapsed times. `device_hours` is
        the sum over all devices. `detectable_ratio` is the smallest ratio above 1 that four of five
        such studies can distinguish from 1.
        """
        times = self.times
        detectable = self.resolution.ratio
        return {
            "tokens": self.study.training.tokens,
            "epochs": self.data.epochs.count,
            "training_flops": self.flops,
            "device": self.device,
            "devices": times.devices if times else None,
            "training_seconds": times.training if times else None,
            "evaluation_seconds": times.evaluation if times else None,
            "device_hours": times.device_hours if times else None,
            "cost": self.cost,
            "disk_bytes": self.disk.checkpoints + self.disk.states + self.disk.data,
            "free_bytes": self.disk.free,
            "detectable_ratio": None if math.isinf(detectable) else detectable,
        }

    def __repr__(self) -> str:
        parts = [f"{name}={_short(value)}" for name, value in self.needs().items()]
        return f"Estimate({self.study.study_id}: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        """Return the models and the needs as HTML, which a notebook shows."""
        import pandas as pd

        needs = pd.DataFrame({name: [_short(value)] for name, value in self.needs().items()})
        return f"{self.table().to_html(index=False)}\n{needs.to_html(index=False)}"

    def baseline_of(self, model: PlannedModel) -> PlannedModel | Resources:
        """Return the costs that a model is matched to: those of the baseline at its depth."""
        baseline = self.study.models.compared_with
        if baseline in self.elsewhere:
            return self.elsewhere[baseline][model.depth]
        at_depth = (other for other in self.models if other.depth == model.depth)
        return next(other for other in at_depth if other.variant == baseline)


def _short(value: float | str | None) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def estimate_study(
    study: Study, machine: Machine = Machine(), *, trust_code: bool = False
) -> Estimate:
    """Estimate the needs of a study. Nothing is trained unless `machine` asks to measure.

    Raises InputError for impossible numbers, if the size of the vocabulary is unknown before the
    tokenizer is read, if a model cannot be matched, or if the mirror does not exist.
    """
    _check_numbers(machine)
    check_data(study, trust_code=trust_code)
    vocabulary, end_token = _vocabulary(study)
    trust_code |= study.trusted
    check_trusted(study, trust_code=trust_code)
    on_gpu = machine.gpus is not None or gpus(study) > 0
    if machine.measure and on_gpu and not gpus(study):
        raise InputError(
            "--measure times a GPU of this machine, but torch finds no GPU here; with --gpus, give"
            " --tflops N, the rate that your GPU sustains"
        )
    planned = sized_models(study, vocabulary, end_token, trust_code=trust_code)
    rates = _rates(study, planned, machine, on_gpu=on_gpu, trust_code=trust_code)
    times = None
    if not rates.unknown(planned):
        times = estimate_times(study, planned, rates, machine.gpus)
    data = data_needs(study)
    slow = slow_warnings(study, planned, rates, on_gpu=on_gpu, trust_code=trust_code)
    warnings = [*study_warnings(study), *slow]
    return Estimate(
        study=study,
        models=tuple(planned),
        elsewhere=costs_elsewhere(study),
        data=data,
        flops=_flops(study, planned),
        device="GPU" if on_gpu else "core",
        rates=rates,
        times=times,
        price=machine.price,
        resolution=_resolution(study),
        disk=Disk(*bytes_written(study, planned), data.written, free_bytes(study.store_folder)),
        left=_left(study),
        benchmarks=_cards(study, rates),
        warnings=tuple(warnings),
        notices=tuple(notice for source in study.own_sources for notice in notices(source)),
    )


def largest_state(estimate: Estimate) -> int:
    """Count the bytes of the state of a training of the largest model."""
    return state_bytes(estimate.study, largest_model(estimate))


def largest_model(estimate: Estimate) -> PlannedModel:
    """Return the model with the most parameters."""
    return max(estimate.models, key=lambda model: model.parameters)


def _check_numbers(machine: Machine) -> None:
    check_price(machine.price)
    if machine.gpus is not None and machine.gpus < 1:
        raise InputError(f"--gpus is {machine.gpus}, but it must be a whole number of at least 1")
    if machine.tflops is not None and not 0 < machine.tflops < math.inf:
        raise InputError(f"--tflops is {machine.tflops:g}, but it must be a number above 0")


def _vocabulary(study: Study) -> tuple[int, int]:
    """Return size and end mark of the vocabulary: of the finished tokenizer, or else as planned."""
    plan = Plan(study)
    if plan.like:
        made = plan.like.tokenizer.results
        return made["vocabulary_size"], made["end_token"]
    try:
        made = plan.data.tokenizer.results
        return made["vocabulary_size"], made["end_token"]
    except InputError:
        planned = study.data.tokenizer.vocabulary_size
    if planned is None:
        raise InputError(
            "data.tokenizer.vocabulary_size: give the size beside 'hub' or 'file', since it sizes"
            " the models"
        )
    return planned, 0


def _rates(
    study: Study,
    planned: Sequence[PlannedModel],
    machine: Machine,
    *,
    on_gpu: bool,
    trust_code: bool,
) -> Rates:
    """Return the training speeds of the models: from an option, or else from runs in the store."""
    if machine.measure:
        return measure_rates(study, planned, trust_code=trust_code)
    if machine.tflops is not None:
        return rates_at(machine.tflops, study, planned)
    rates = rates_in_store(study, planned, on_gpu=on_gpu)
    unknown = [model for model in planned if model.model_id not in rates.by_model]
    measured = {} if on_gpu else kept_rates(study, unknown)
    if not measured:
        return rates
    origin = f"{STEPS} steps of each measured before"
    if rates.by_model:
        names = ", ".join(model.name for model in unknown if model.model_id in measured)
        origin = f"{rates.origin}, and {STEPS} steps of {names} measured before"
    return replace(rates, by_model={**rates.by_model, **measured}, origin=origin)


def _flops(study: Study, planned: Sequence[PlannedModel]) -> float:
    """Count the FLOPs of all trainings, including a search for learning rates."""
    length = study.training.sequence_length
    trainings = [training for phase in phases(study, planned) for training in phase]
    return sum(training.model.training_flops(length) * training.tokens for training in trainings)


def _resolution(study: Study) -> Resolution:
    """Return the smallest ratio that the study can detect, and the ratio with one more seed."""
    seeds = usual_seeds(study)
    items = 0
    if not unknown_benchmarks(study):
        items = sum(scored.items for scored in scored_by(study))
    noise = DEMO_NOISE.with_items(items)
    level = significance(study)
    return Resolution(
        seeds=seeds,
        ratio=smallest_ratio(noise, seeds, level),
        with_one_more=smallest_ratio(noise, seeds + 1, level),
        noise=noise,
    )


def _cards(study: Study, rates: Rates) -> tuple[dict[str, Any], ...]:
    """Return the levels and the card of each benchmark; nothing before the data are prepared.

    `seconds` are those of one evaluation of one checkpoint on one device, the mean over the models
    whose rates are known; it is null without any rate.
    """
    plan = Plan(study)
    if plan.absent or not plan.data.packed.done:
        return ()
    cards = []
    for level, card in zip(benchmark_levels(plan), benchmark_cards(plan), strict=True):
        seconds = [
            card["tokens"] / (STEP_TO_FORWARD * rate)
            for rate in rates.by_model.values()
            if card["tokens"] is not None
        ]
        cards.append({**level, **card, "seconds": statistics.mean(seconds) if seconds else None})
    return tuple(cards)


def _left(study: Study) -> WorkLeft | None:
    """Return the work that is left of a study; None if the study was not started."""
    if not (study.folder / LOCK).exists():
        return None
    plan = Plan(study)
    if plan.absent:
        return WorkLeft(absent=tuple(data_set.name for data_set in plan.absent))
    if not plan.described:
        return WorkLeft()
    runs = plan.tuning_runs or plan.runs
    evaluations = None
    if plan.prepared:
        every = [evaluation for run in runs for evaluation in plan.evaluations(run)]
        evaluations = sum(not evaluation.done for evaluation in every)
    return WorkLeft(
        trainings=sum(not run.done for run in runs),
        of_trainings=len(runs),
        of_search=bool(plan.tuning_runs),
        evaluations=evaluations,
    )
