"""`dreamer plan`: print what a study will need, from its configuration alone."""

from __future__ import annotations

import argparse
import math
from functools import partial

import pandas as pd

from dreamer_study.flows.commands.planning.data_plan import amount, data_sizes
from dreamer_study.flows.commands.planning.time_plan import (
    CPU_CORE,
    GPU,
    Times,
    estimate_times,
    scored_by,
    unknown_benchmarks,
)
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
from dreamer_study.sql.statistics.resolution import Noise, smallest_factor
from dreamer_study.sql.statistics.sequential import NOMINAL

DEMO_NOISE = Noise(0.146, 0.042, measured_on="the demo (average accuracy, 2026-11-26)", items=400)
SIZES = {
    "expert size": "expert_size",
    "experts": "experts",
    "active": "active_experts",
    "hidden": "hidden_size",
    "depth": "depth",
    "config": "config",
}


def plan(options: argparse.Namespace) -> None:
    """Print the matched models (Tables 1 and 3), the sources, then what data, training and
    evaluation need.

    The mismatch columns are what matching leaves between a model and the baseline; estimates name
    their assumptions. Raises InputError for numbers without sense, when the vocabulary is unknown
    before the tokenizer is read, a model cannot be matched, or the mirror does not exist.
    """
    if not 0 <= (options.price or 0) < math.inf or (options.gpus is not None and options.gpus < 1):
        raise InputError("--price is a number of 0 or more, --gpus a whole number of at least 1")
    study = load_study(options.study, mirror=options.mirror, root=options.root)
    check_data(study, trust_code=options.trust_code)
    vocabulary = study.data.tokenizer.vocabulary_size
    if vocabulary is None:
        raise InputError(
            "data.tokenizer.vocabulary_size: give it beside 'hub' or 'file', to size the models"
        )
    options.trust_code |= study.trusted
    check_trusted(study, trust_code=options.trust_code)
    planned = plan_models(
        study, vocabulary, partial(size, code=study.place, trust_code=options.trust_code)
    )
    console.print(f"{study.study_id}\n")
    baselines = {
        model.depth: model for model in planned if model.variant == study.models.compared_with
    }
    print_table(pd.DataFrame([_model_row(model, baselines[model.depth]) for model in planned]))
    sources, data, data_bytes = data_sizes(study)
    console.print()
    print_table(sources)
    on_gpu = options.gpus is not None or gpus(study) > 0
    times = estimate_times(study, planned, GPU if on_gpu else CPU_CORE, options.gpus)
    lines = {
        **data,
        "": (
            f"{amount(state_bytes(study, planned[-1]))} for the state of a training of "
            f"{planned[-1].model_id}, gradients and activations on top"
        ),
        "tokens": (
            f"{study.training.tokens:,} for each model, in steps of"
            f" {study.training.batch_tokens:,}; {len(study.training.points)} checkpoints"
        ),
        "compute": f"{_flops(study, planned):.3g} FLOPs of training",
        **_times(study, times, options.price, on_gpu=on_gpu),
        "detects": _resolution(study),
        "disk": _disk(study, planned, data_bytes),
        "left": _left(study),
    }
    console.print()
    for name, words in lines.items():
        if words:
            console.print(f"{name:<9} {words}")
    for warning in study_warnings(study):
        console.print(f"{'WARNING':<9} {warning}")
    for source in study.own_sources:
        for notice in notices(source):
            console.print(f"{'note':<9} {notice}")


def _left(study: Study) -> str | None:
    """Say which work a study that was started leaves to be done; None for a study that was not."""
    if not (study.folder / LOCK).exists():
        return None
    plan = Plan(study)
    if plan.absent:
        return (
            f"not known before all data sets are here: {', '.join(one.name for one in plan.absent)}"
            " (--mirror)"
        )
    if not plan.described:
        return "data, then every training and every evaluation; `dreamer status` shows each stage"
    runs, search = plan.tuning_runs or plan.runs, " of the search" * bool(plan.tuning_runs)
    trainings = f"{sum(not run.done for run in runs)} of {len(runs)} trainings{search}"
    if not plan.prepared:
        return (
            f"{trainings}, and evaluations once the items of late benchmarks were looked for in the"
            " data"
        )
    left = sum(not one.done for run in runs for one in plan.evaluations(run))
    return f"{trainings}, {left:,} evaluations of checkpoints that are there"


def _flops(study: Study, planned: list[PlannedModel]) -> float:
    """Count the FLOPs of all trainings, those of a search for learning rates too."""
    length = study.training.sequence_length
    trainings = (training for phase in phases(study, planned) for training in phase)
    return sum(one.model.training_flops(length) * (one.end - one.start) for one in trainings)


def _times(study: Study, times: Times, price: float | None, *, on_gpu: bool) -> dict[str, str]:
    """Say how long the study takes, how many hours of its devices, and what these cost."""
    unknown = unknown_benchmarks(study)
    without = f", without {', '.join(unknown)}, of unknown size" if unknown else ""
    kind = "GPU" if on_gpu else "core"
    lines = {
        "time": (
            f"{duration(times.training)} of training and {duration(times.evaluation)} of"
            f" evaluation{without} on {times.devices} x {(GPU if on_gpu else CPU_CORE).name}"
        ),
        "hours": (
            f"{times.device_hours:,.3g} {kind}-hours, {times.busy / 3600 / times.device_hours:.0%}"
            " of them busy"
        ),
    }
    if price is not None:
        lines["price"] = f"{times.device_hours * price:,.2f} at {price:g} for a {kind}-hour"
    return lines


def _disk(study: Study, planned: list[PlannedModel], data: float) -> str:
    """Say what all stages write, and what is free."""
    checkpoints, states = bytes_written(study, planned)
    raw = "raw and " * (study.evaluation.weights != "averaged")
    kinds = f"{raw}averaged " if study.training.averaging else ""
    return (
        f"{amount(checkpoints + states + data)}: {amount(checkpoints)} of {kinds}checkpoints,"
        f" {amount(states)} to resume from, {amount(data)} of data;"
        f" {amount(free_bytes(study.store_folder))} are free"
    )


def _resolution(study: Study) -> str:
    """Say the minimum detectable effect: the mean factor that the study tells from 1, and with one
    more seed."""
    usual = len(study.training.seeds)  # a variant with seeds of its own is a control, or a twin
    seeds = 1 if study.training.stop_at(usual) else usual
    items = 0 if unknown_benchmarks(study) else sum(scored.items for scored in scored_by(study))
    noise = DEMO_NOISE.with_items(items)
    significance = NOMINAL if study.training.seeds_until else SIGNIFICANCE
    told, more = (smallest_factor(noise, count, significance) for count in (seeds, seeds + 1))
    scaled = f", the items' part scaled to {noise.items:,} items" if noise != DEMO_NOISE else ""
    by = f"by the noise of {noise.measured_on}{scaled}"
    if seeds == 1:
        return (
            "no effect: one seed of each model shows no spread; two would detect a mean factor of"
            f" {more:.2f}, {by}"
        )
    few = f"one more seed would detect {more:.2f}"
    return (
        f"a mean factor of {told:.2f} from 1 in four of five such studies, with {seeds} seeds;"
        f" {few}; {by}"
    )


def _model_row(model: PlannedModel, baseline: PlannedModel) -> dict[str, object]:
    config = model.config.to_dict()
    return {
        "model": model.model_id,
        "parameters": model.parameters,
        "FLOPs/token": model.flops_per_token,
        "FLOPs to baseline": _apart(model.flops_per_token, baseline.flops_per_token),
        "parameters to baseline": _apart(model.parameters, baseline.parameters),
        "memory": amount(model.memory_bytes),
        **{name: config.get(field, "-") for name, field in SIZES.items()},
        "remarks": "; ".join(model.remarks),
    }


def _apart(ours: float, theirs: float) -> str:
    return f"{100 * (ours / theirs - 1):+.2f} %" if theirs else "-"
