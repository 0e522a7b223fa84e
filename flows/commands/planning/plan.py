"""`dreamer plan`: print what a study will need, from its configuration and what its store holds."""

from __future__ import annotations

import argparse
import math

import pandas as pd

from dreamer_study.flows.commands.planning.data_plan import amount, data_lines, source_table
from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.flows.estimates.benchmark_sizes import unknown_benchmarks
from dreamer_study.flows.estimates.study_estimate import (
    DEMO_NOISE,
    Estimate,
    Machine,
    Resolution,
    WorkLeft,
    estimate_study,
    largest_state,
)
from dreamer_study.flows.estimates.times import Times
from dreamer_study.flows.jobs.devices import gpus
from dreamer_study.flows.plan.model_plan import PlannedModel
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.reports.text.numbers import duration

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
    their assumptions. Raises InputError as `estimate_study` does.
    """
    study = load_study(options.study, mirror=options.mirror, root=options.root)
    machine = Machine(options.gpus, options.tflops, options.measure, options.price)
    print_estimate(estimate_study(study, machine, trust_code=options.trust_code))


def print_estimate(estimate: Estimate) -> None:
    """Print the models, the sources, and a line for each thing that the study needs."""
    study = estimate.study
    console.print(f"{study.study_id}\n")
    print_table(
        pd.DataFrame([_model_row(model, estimate.baseline_of(model)) for model in estimate.models])
    )
    console.print()
    print_table(source_table(estimate.data))
    training = study.training
    last = estimate.models[-1]
    lines = {
        **data_lines(study, estimate.data),
        "": (
            f"{amount(largest_state(estimate))} for the state of a training of {last.model_id},"
            " gradients and activations on top"
        ),
        "tokens": (
            f"{training.tokens:,} for each model, in steps of {training.batch_tokens:,};"
            f" {len(training.points)} checkpoints"
        ),
        "compute": f"{estimate.flops:.3g} FLOPs of training",
        **_time_lines(estimate),
        "detects": _resolution(estimate.resolution),
        "disk": _disk(estimate),
        "left": _left(estimate.left),
    }
    console.print()
    for name, text in lines.items():
        if text:
            console.print(f"{name:<9} {text}")
    for warning in estimate.warnings:
        console.print(f"{'WARNING':<9} {warning}")
    for notice in estimate.notices:
        console.print(f"{'note':<9} {notice}")


def _left(left: WorkLeft | None) -> str | None:
    """Say which work a study that was started leaves to be done; None for a study that was not."""
    if left is None:
        return None
    if left.absent:
        names = ", ".join(left.absent)
        return f"not known before all data sets are here: {names} (--mirror)"
    if left.trainings is None:
        return "data, then every training and every evaluation; `dreamer status` shows each stage"
    trainings = f"{left.trainings} of {left.of_trainings} trainings"
    if left.of_search:
        trainings += " of the search"
    if left.evaluations is None:
        return (
            f"{trainings}, and evaluations once the items of late benchmarks were looked for in the"
            " data"
        )
    return f"{trainings}, {left.evaluations:,} evaluations of checkpoints that are there"


def _time_lines(estimate: Estimate) -> dict[str, str]:
    """Say how fast the models train, how long the study takes, and what its hours cost.

    Without a rate of each model there is no time, and a line says how to get one.
    """
    kind = estimate.device
    rates = estimate.rates
    times = estimate.times
    if times is None:
        how = "--tflops N computes one from your own sustained rate"
        if kind == "core" or gpus(estimate.study):
            how = f"--measure times ten training steps of each model here, {how}"
        unknown = ", ".join(rates.unknown(estimate.models))
        lines = {"time": f"not known: no run of {unknown} in the store; {how}"}
        if estimate.price is not None:
            lines["price"] = "not known without a time"
        return lines

    speeds = ", ".join(
        f"{model.model_id} {_speed(rates.by_model[model.model_id])}" for model in estimate.models
    )
    lines = {
        "rate": f"{speeds} tokens/s on one {kind}: {rates.origin}",
        "time": _duration(estimate.study, times, kind),
        "hours": (
            f"{times.device_hours:,.3g} {kind}-hours, {times.busy / 3600 / times.device_hours:.0%}"
            " of them busy"
        ),
    }
    if estimate.cost is not None:
        lines["price"] = f"{estimate.cost:,.2f} at {estimate.price:g} for a {kind}-hour"
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


def _disk(estimate: Estimate) -> str:
    """Say what all stages write, and what is free."""
    disk = estimate.disk
    study = estimate.study
    kinds = ""
    if study.training.averaging:
        kinds = "averaged " if study.evaluation.weights == "averaged" else "raw and averaged "
    whole = disk.checkpoints + disk.states + disk.data
    return (
        f"{amount(whole)}: {amount(disk.checkpoints)} of {kinds}checkpoints,"
        f" {amount(disk.states)} to resume from, {amount(disk.data)} of data;"
        f" {amount(disk.free)} are free"
    )


def _resolution(resolution: Resolution) -> str:
    """Say the smallest ratio that the study can detect, and the one with one more seed."""
    noise = resolution.noise
    basis = f"by the noise of {noise.measured_on}"
    if noise != DEMO_NOISE:
        basis += f", the items' part scaled to {noise.items:,} items"
    if math.isinf(resolution.ratio):
        return (
            "no ratio: one seed of each model shows no spread; two seeds can detect"
            f" {resolution.with_one_more:.2f}x, {basis}"
        )
    return (
        f"can detect {resolution.ratio:.2f}x, or 1/{resolution.ratio:.2f}, in four of five such"
        f" studies with {resolution.seeds} seeds; one more seed can detect"
        f" {resolution.with_one_more:.2f}x; {basis}"
    )


def _model_row(model: PlannedModel, baseline: PlannedModel) -> dict[str, object]:
    config = model.config.to_dict()
    return {
        "model": model.model_id,
        "parameters": model.parameters,
        "FLOPs/token": model.flops_per_token,
        "FLOPs to baseline": _difference(model.flops_per_token, baseline.flops_per_token),
        "parameters to baseline": _difference(model.parameters, baseline.parameters),
        "memory": amount(model.memory_bytes),
        **{name: config.get(field, "-") for name, field in SIZES.items()},
        "remarks": "; ".join(model.remarks),
    }


def _difference(ours: float, theirs: float) -> str:
    return f"{100 * (ours / theirs - 1):+.2f} %" if theirs else "-"
