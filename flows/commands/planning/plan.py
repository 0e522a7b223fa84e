"""`dreamer plan`: print what a study will need, from its configuration and what its store holds."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from functools import partial

import pandas as pd

from dreamer_study.flows.commands.planning.benchmark_sizes import scored_by, unknown_benchmarks
from dreamer_study.flows.commands.planning.data_plan import amount, data_sizes
from dreamer_study.flows.commands.planning.measure import measure_rates
from dreamer_study.flows.commands.planning.rates import Rates, rates_at, rates_in_store
from dreamer_study.flows.commands.planning.time_plan import Times, estimate_times
from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.flows.jobs.devices import gpus
from dreamer_study.flows.plan.model_plan import PlannedModel, check_trusted, plan_models, size
from dreamer_study.flows.plan.preflight import (
    bytes_written,
    check_data,
    phases,
    state_bytes,
    study_warnings,
)
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.disk import free_bytes
from dreamer_study.flows.progress.study_lock import LOCK
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.source import notices
from dreamer_study.reports.text.numbers import duration
from dreamer_study.sql.statistics.errors import SIGNIFICANCE
from dreamer_study.sql.statistics.resolution import Noise, smallest_ratio
from dreamer_study.sql.statistics.sequential import NOMINAL

DEMO_NOISE = Noise(0.090, 0.050, measured_on="the demo (average accuracy, 2026-11-28)", items=400)
SIZES = {
    "expert size": "expert_size",
    "experts": "experts",
    "active": "active_experts",
    "hidden": "hidden_size",
    "depth": "depth",
    "config": "config",
}


def plan(options: argparse.Namespace) -> None:
    """Print the matched models (Tables 1 and 3), the sources, and what the work needs.

    The mismatch columns are what matching leaves between a model and the baseline; estimates name
    their assumptions. Raises InputError for numbers without sense, when the vocabulary is unknown
    before the tokenizer is read, a model cannot be matched, or the mirror does not exist.
    """
    _check_numbers(options)
    study = load_study(options.study, mirror=options.mirror, root=options.root)
    check_data(study, trust_code=options.trust_code)
    vocabulary = _vocabulary_size(study)
    options.trust_code |= study.trusted
    check_trusted(study, trust_code=options.trust_code)
    on_gpu = options.gpus is not None or gpus(study) > 0
    if options.measure and on_gpu and not gpus(study):
        raise InputError(
            "--measure times a device of this machine, which has no GPU that torch sees; with"
            " --gpus give --tflops N, your GPU's sustained rate"
        )
    planned = plan_models(
        study, vocabulary, partial(size, code=study.place, trust_code=options.trust_code)
    )
    rates = _rates(study, planned, options, on_gpu=on_gpu)

    console.print(f"{study.study_id}\n")
    baselines = {
        model.depth: model for model in planned if model.variant == study.models.compared_with
    }
    muon = any(model.muon_share is not None for model in planned)
    rows = [_model_row(model, baselines[model.depth], muon=muon) for model in planned]
    print_table(pd.DataFrame(rows))
    sources, data_lines, data_bytes = data_sizes(study)
    console.print()
    print_table(sources)
    training = study.training
    lines = {
        **data_lines,
        "": (
            f"{amount(state_bytes(study, planned[-1]))} for the state of a training of "
            f"{planned[-1].model_id}, gradients and activations on top"
        ),
        "tokens": (
            f"{training.tokens:,} for each model, in steps of {training.batch_tokens:,};"
            f" {len(training.points)} checkpoints"
        ),
        "compute": f"{_flops(study, planned):.3g} FLOPs of training",
        **_time_lines(study, planned, rates, options, on_gpu=on_gpu),
        "detects": _resolution(study),
        "disk": _disk(study, planned, data_bytes),
        "left": _left(study),
    }
    console.print()
    for name, text in lines.items():
        if text:
            console.print(f"{name:<9} {text}")
    for warning in study_warnings(study):
        console.print(f"{'WARNING':<9} {warning}")
    for source in study.own_sources:
        for notice in notices(source):
            console.print(f"{'note':<9} {notice}")


def _check_numbers(options: argparse.Namespace) -> None:
    if not 0 <= (options.price or 0) < math.inf:
        raise InputError(f"--price is {options.price:g}, but it must be a number of 0 or more")
    if options.gpus is not None and options.gpus < 1:
        raise InputError(f"--gpus is {options.gpus}, but it must be a whole number of at least 1")
    if options.tflops is not None and not 0 < options.tflops < math.inf:
        raise InputError(f"--tflops is {options.tflops:g}, but it must be a number above 0")


def _vocabulary_size(study: Study) -> int:
    """Return the size of the vocabulary: of the tokenizer where that is made, else as planned."""
    try:
        return Plan(study).data.tokenizer.results["vocabulary_size"]
    except InputError:
        planned = study.data.tokenizer.vocabulary_size
    if planned is None:
        raise InputError(
            "data.tokenizer.vocabulary_size: give it beside 'hub' or 'file', to size the models"
        )
    return planned


def _left(study: Study) -> str | None:
    """Say which work a study that was started leaves to be done; None for a study that was not."""
    if not (study.folder / LOCK).exists():
        return None
    plan = Plan(study)
    if plan.absent:
        names = ", ".join(data_set.name for data_set in plan.absent)
        return f"not known before all data sets are here: {names} (--mirror)"
    if not plan.described:
        return "data, then every training and every evaluation; `dreamer status` shows each stage"
    runs = plan.tuning_runs or plan.runs
    trainings = f"{sum(not run.done for run in runs)} of {len(runs)} trainings"
    if plan.tuning_runs:
        trainings += " of the search"
    if not plan.prepared:
        return (
            f"{trainings}, and evaluations once the items of late benchmarks were looked for in the"
            " data"
        )
    evaluations = [evaluation for run in runs for evaluation in plan.evaluations(run)]
    left = sum(not evaluation.done for evaluation in evaluations)
    return f"{trainings}, {left:,} evaluations of checkpoints that are there"


def _flops(study: Study, planned: list[PlannedModel]) -> float:
    """Count the FLOPs of all trainings, those of a search for learning rates too."""
    length = study.training.sequence_length
    trainings = [training for phase in phases(study, planned) for training in phase]
    return sum(
        training.model.training_flops(length) * (training.end - training.start)
        for training in trainings
    )


def _rates(
    study: Study, planned: Sequence[PlannedModel], options: argparse.Namespace, *, on_gpu: bool
) -> Rates:
    """Find how fast the models train: as an option says, else as runs in the store did."""
    if options.measure:
        return measure_rates(study, planned, trust_code=options.trust_code)
    if options.tflops is not None:
        return rates_at(options.tflops, study, planned)
    return rates_in_store(study, planned, on_gpu=on_gpu)


def _time_lines(
    study: Study,
    planned: Sequence[PlannedModel],
    rates: Rates,
    options: argparse.Namespace,
    *,
    on_gpu: bool,
) -> dict[str, str]:
    """Say how fast the models train, how long the study takes, and what its hours cost.

    Without a rate of each model there is no time, and a line says how to get one.
    """
    kind = "GPU" if on_gpu else "core"
    unknown = rates.unknown(planned)
    if unknown:
        how = "--tflops N computes one from your own sustained rate"
        if not on_gpu or gpus(study):
            how = f"--measure times ten training steps of each model here, {how}"
        lines = {"time": f"not known: no run of {', '.join(unknown)} in the store; {how}"}
        if options.price is not None:
            lines["price"] = "not known without a time"
        return lines

    speeds = ", ".join(
        f"{model.model_id} {_speed(rates.by_model[model.model_id])}" for model in planned
    )
    times = estimate_times(study, planned, rates, options.gpus)
    lines = {
        "rate": f"{speeds} tokens/s on one {kind}: {rates.origin}",
        "time": _duration(study, times, kind),
        "hours": (
            f"{times.device_hours:,.3g} {kind}-hours, {times.busy / 3600 / times.device_hours:.0%}"
            " of them busy"
        ),
    }
    if options.price is not None:
        cost = times.device_hours * options.price
        lines["price"] = f"{cost:,.2f} at {options.price:g} for a {kind}-hour"
    return lines


def _speed(tokens_per_second: float) -> str:
    digits = ",.0f" if tokens_per_second >= 10 else ".2g"
    return format(tokens_per_second, digits)


def _duration(study: Study, times: Times, kind: str) -> str:
    evaluation = f"{duration(times.evaluation)} of evaluation"
    unknown = unknown_benchmarks(study)
    if unknown:
        evaluation += f", without {', '.join(unknown)}, of unknown size"
    return f"{duration(times.training)} of training and {evaluation} on {times.devices} x {kind}"


def _disk(study: Study, planned: list[PlannedModel], data_bytes: float) -> str:
    """Say what all stages write, and what is free."""
    checkpoints, states = bytes_written(study, planned)
    kinds = ""
    if study.training.averaging:
        kinds = "averaged " if study.evaluation.weights == "averaged" else "raw and averaged "
    return (
        f"{amount(checkpoints + states + data_bytes)}: {amount(checkpoints)} of {kinds}checkpoints,"
        f" {amount(states)} to resume from, {amount(data_bytes)} of data;"
        f" {amount(free_bytes(study.store_folder))} are free"
    )


def _resolution(study: Study) -> str:
    """Say the smallest ratio that the study can detect, and the one with one more seed.

    That is the smallest ratio above 1 that four of five such studies distinguish from 1.
    """
    usual = len(study.training.seeds)  # a variant with seeds of its own is a control, or a twin
    seeds = 1 if study.training.stop_at(usual) else usual
    items = 0
    if not unknown_benchmarks(study):
        items = sum(scored.items for scored in scored_by(study))
    noise = DEMO_NOISE.with_items(items)
    significance = NOMINAL if study.training.seeds_until else SIGNIFICANCE
    detected = smallest_ratio(noise, seeds, significance)
    detected_with_one_more = smallest_ratio(noise, seeds + 1, significance)
    basis = f"by the noise of {noise.measured_on}"
    if noise != DEMO_NOISE:
        basis += f", the items' part scaled to {noise.items:,} items"
    if seeds == 1:
        return (
            "no ratio: one seed of each model shows no spread; two seeds can detect"
            f" {detected_with_one_more:.2f}x, {basis}"
        )
    return (
        f"can detect {detected:.2f}x, or 1/{detected:.2f}, in four of five such studies with"
        f" {seeds} seeds; one more seed can detect {detected_with_one_more:.2f}x; {basis}"
    )


def _model_row(model: PlannedModel, baseline: PlannedModel, *, muon: bool) -> dict[str, object]:
    """Make the row of a model; with a column for Muon's share where it trains any of them."""
    config = model.config.to_dict()
    under_muon = {}
    if muon:
        share = model.muon_share
        under_muon["by Muon"] = "-" if share is None else f"{share:.0%}"
    return {
        "model": model.model_id,
        "parameters": model.parameters,
        "FLOPs/token": model.flops_per_token,
        "FLOPs to baseline": _difference(model.flops_per_token, baseline.flops_per_token),
        "parameters to baseline": _difference(model.parameters, baseline.parameters),
        "memory": amount(model.memory_bytes),
        **under_muon,
        **{name: config.get(field, "-") for name, field in SIZES.items()},
        "remarks": "; ".join(model.remarks),
    }


def _difference(ours: float, theirs: float) -> str:
    return f"{100 * (ours / theirs - 1):+.2f} %" if theirs else "-"
