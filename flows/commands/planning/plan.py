"""`dreamer plan`: print what a study will need, from its configuration and what its store holds."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.commands.planning.data_plan import amount, data_lines, source_table
from dreamer_study.flows.commands.tables import console, print_fields, print_table
from dreamer_study.flows.estimates.benchmark_sizes import unknown_benchmarks
from dreamer_study.flows.estimates.data_needs import SizedSource
from dreamer_study.flows.estimates.study_estimate import (
    DEMO_NOISE,
    Estimate,
    Machine,
    Resolution,
    WorkLeft,
    estimate_study,
    largest_model,
    largest_state,
)
from dreamer_study.flows.estimates.times import Times
from dreamer_study.flows.jobs.devices import gpus
from dreamer_study.flows.plan.model_plan import PlannedModel, shown_name
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.module_config import DreamerConfig, ModuleConfig
from dreamer_study.model.training.recipe import branch_tokens
from dreamer_study.reports.text.numbers import counted, duration, figure, flops

MOST_ELSEWHERE = 4  # variants of other studies whose costs are listed
SIZES = {
    "expert size": "expert_size",
    "experts": "experts",
    "active": "active_experts",
    "hidden": "hidden_size",
    "depth": "depth",
}
CARDS = (
    "(detects: the ratio that four of five such studies detect by this benchmark alone, at the"
    f" noise of {DEMO_NOISE.measured_on} with its own items; time: of one evaluation on one device)"
)


def plan(options: argparse.Namespace) -> None:
    """Print the matched models (Tables 1 and 3), the sources, and what the work needs.

    The mismatch columns are what matching leaves between a model and the baseline; estimates name
    their assumptions. Raises InputError as `estimate_study` does.
    """
    study = load_study(options.study, mirror=options.mirror, root=options.root)
    machine = Machine(options.gpus, options.tflops, options.measure, options.price)
    estimate = estimate_study(study, machine, trust_code=options.trust_code)
    if options.json:
        print_document(**document(estimate))
    else:
        print_estimate(estimate)


def document(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as the fields of the command's JSON document."""
    study = estimate.study
    epochs = estimate.data.epochs
    times = estimate.times
    return {
        "study": study.study_id,
        "models": [_model_fields(model) for model in estimate.models],
        "sources": [_source_fields(sized) for sized in estimate.data.sources],
        "tokens": study.training.tokens,
        "checkpoints": len(study.training.points),
        "epochs": {"count": epochs.count, "at_most": epochs.at_least, "packed": epochs.packed},
        "training_flops": estimate.flops,
        "device": estimate.device,
        "rates": {"tokens_per_second": _rates(estimate), "origin": estimate.rates.origin},
        "time": times
        and {
            "training_seconds": times.training,
            "evaluation_seconds": times.evaluation,
            "devices": times.devices,
            "device_hours": times.device_hours,
            "busy_hours": times.busy / 3600,
        },
        "price": estimate.cost,
        "detects": {
            "seeds": estimate.resolution.seeds,
            "ratio": estimate.resolution.ratio,
            "with_one_more_seed": estimate.resolution.with_one_more,
        },
        "bytes": {
            "checkpoints": estimate.disk.checkpoints,
            "states": estimate.disk.states,
            "data": estimate.disk.data,
            "free": estimate.disk.free,
            "memory": estimate.data.memory,
            "training_state": largest_state(estimate),
        },
        "left": estimate.left,
        "benchmarks": estimate.benchmarks,
        "warnings": estimate.warnings,
        "notes": estimate.notices,
    }


def _rates(estimate: Estimate) -> dict[str, float]:
    """Return the rates that are known, by the names of the models."""
    rates = estimate.rates.by_model
    known = [model for model in estimate.models if model.model_id in rates]
    return {model.name: rates[model.model_id] for model in known}


def _model_fields(model: PlannedModel) -> dict[str, Any]:
    return {
        "model": model.name,
        "model_id": model.model_id,
        "variant": model.variant,
        "depth": model.depth,
        "parameters": model.parameters,
        "flops_per_token": model.flops_per_token,
        "memory_bytes": model.memory_bytes,
        "muon_share": model.muon_share,
        "config": model.config.to_dict(),
        "remarks": model.remarks,
    }


def _source_fields(sized: SizedSource) -> dict[str, Any]:
    size = sized.size
    return {
        "source": sized.source.name,
        "documents": size.documents,
        "download_bytes": size.download,
        "text_bytes": size.text,
        "without_traces_bytes": None if size.text is None else sized.stripped,
    }


def print_estimate(estimate: Estimate) -> None:
    """Print the models, the sources, and a line for each thing that the study needs."""
    study = estimate.study
    console.print(f"{study.study_id}\n")
    muon = any(model.muon_share is not None for model in estimate.models)
    rows = [_model_row(model, estimate.baseline_of(model), muon=muon) for model in estimate.models]
    print_table(pd.DataFrame(rows))
    bundled = [model for model in estimate.models if isinstance(model.config, DreamerConfig)]
    if bundled:
        console.print()
        print_table(pd.DataFrame([_sizes_row(model) for model in bundled]))
    console.print()
    print_table(source_table(estimate.data))
    training = study.training
    lines = {
        "elsewhere": _elsewhere(estimate),
        **data_lines(study, estimate.data),
        "": (
            f"{amount(largest_state(estimate))} for the state of a training of"
            f" {largest_model(estimate).name},"
            " gradients and activations on top"
        ),
        "tokens": (
            f"{training.tokens:,} for each model, in steps of {training.batch_tokens:,};"
            f" {counted(len(training.points), 'checkpoint')}{_branches(estimate.study)}"
        ),
        "compute": f"{flops(estimate.flops)} FLOPs of training",
        **_time_lines(estimate),
        "detects": _resolution(estimate.resolution),
        "disk": _disk(estimate),
        "left": _left(estimate.left),
    }
    if estimate.benchmarks:
        console.print()
        print_table(pd.DataFrame([_card_row(card) for card in estimate.benchmarks]))
        console.print(CARDS)
    console.print()
    print_fields((name, text) for name, text in lines.items() if text)
    print_fields(("WARNING", warning) for warning in estimate.warnings)
    remarks = [f"{model.name}: {remark}" for model in estimate.models for remark in model.remarks]
    print_fields(("note", note) for note in (*remarks, *estimate.notices))


def _branches(study: Study) -> str:
    """Say what the branches add to the tokens of a training; empty where there are none."""
    training = study.training
    if not training.branches:
        return ""
    added = sum(branch_tokens(training.branches, point) for point in training.points)
    share = f"{100 * training.branches:.3g} %"
    return f", from each a branch of {share} of its tokens ({added:,} tokens in all)"


def _elsewhere(estimate: Estimate) -> str:
    """Say which variants are not trained, with what they cost; empty where there are none.

    Many are only counted, by where they come from.
    """
    elsewhere = estimate.study.models.elsewhere
    if len(elsewhere) > MOST_ELSEWHERE:
        counts = Counter(str(variant.origin) for variant in elsewhere)
        return "; ".join(f"{counted(n, 'variant')} from {origin}" for origin, n in counts.items())
    parts = []
    for variant in elsewhere:
        for depth, costs in estimate.elsewhere[variant.name].items():
            name = shown_name(estimate.study, variant.name, depth)
            parts.append(
                f"{name} from {variant.origin} ({costs.parameters:,} parameters,"
                f" {costs.flops_per_token:,.0f} FLOPs a token)"
            )
    return "; ".join(parts)


def _left(left: WorkLeft | None) -> str | None:
    """Say which work a study that was started leaves to be done; None for a study that was not."""
    if left is None:
        return None
    if left.absent:
        names = ", ".join(left.absent)
        return f"not known before all data sets are here: {names} (--mirror)"
    if left.trainings is None:
        return "data, then every training and every evaluation; `dreamer status` shows each stage"
    trainings = f"{left.trainings} of {counted(left.of_trainings, 'training')}"
    if left.of_search:
        trainings += " of the search"
    if left.evaluations is None:
        return (
            f"{trainings}, and evaluations once the items of late benchmarks were looked for in the"
            " data"
        )
    evaluations = counted(left.evaluations, "evaluation")
    return f"{trainings}, {evaluations} of checkpoints that are there"


def _card_row(card: Mapping[str, Any]) -> dict[str, object]:
    """Return what the store knows of a benchmark, in a line of 80 columns."""
    seconds = card["seconds"]
    return {
        "benchmark": card["task"],
        "items": "-" if card["items"] is None else card["items"],
        "wrong gold": "-" if card["failed"] is None else card["failed"],
        "ceiling": _share(card["ceiling"]),
        "floor": _share(card["floor"]),
        "by": card["floor_rule"] or "-",
        "detects": "-" if card["detectable"] is None else f"{card['detectable']:.2f}x",
        "time": "-" if seconds is None else duration(seconds),
    }


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


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
        f"{model.name} {_speed(rates.by_model[model.model_id])}" for model in estimate.models
    )
    busy = times.busy / 3600 / times.device_hours
    lines = {
        "rate": f"{speeds} tokens/s on one {kind}: {rates.origin}",
        "time": _duration(estimate.study, times, kind),
        "hours": (f"{figure(times.device_hours)} {kind}-hours, {busy:.0%} of them busy"),
    }
    if estimate.cost is not None:
        lines["price"] = f"{estimate.cost:,.2f} at {figure(estimate.price)} for a {kind}-hour"
    return lines


def _speed(tokens_per_second: float) -> str:
    if tokens_per_second >= 10:
        return f"{tokens_per_second:,.0f}"
    return figure(tokens_per_second, 2)


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
        has_both = study.evaluation.weights in ("raw", "both")
        kinds = "raw and averaged " if has_both else "averaged "
    branches = " and branches" if study.training.branches else ""
    whole = disk.checkpoints + disk.states + disk.data
    return (
        f"{amount(whole)}: {amount(disk.checkpoints)} of {kinds}checkpoints{branches},"
        f" {amount(disk.states)} to resume from, {amount(disk.data)} of data;"
        f" {amount(disk.free)} are free"
    )


def _resolution(resolution: Resolution) -> str:
    """Say the smallest ratio that the study can detect, and the one with one more seed."""
    noise = resolution.noise
    basis = f"by the noise of {noise.measured_on}"
    if noise != DEMO_NOISE:
        basis += f", the items' part scaled to {counted(noise.items, 'item')}"
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


def _model_row(model: PlannedModel, baseline: PlannedModel, *, muon: bool) -> dict[str, object]:
    """Make the row of a model; with a column for Muon's share where it trains any of them."""
    under_muon = {}
    if muon:
        share = model.muon_share
        under_muon["by Muon"] = "-" if share is None else f"{share:.0%}"
    return {
        "model": model.name,
        "parameters": model.parameters,
        "FLOPs/token": model.flops_per_token,
        "FLOPs to baseline": _difference(model.flops_per_token, baseline.flops_per_token),
        "parameters to baseline": _difference(model.parameters, baseline.parameters),
        "memory": amount(model.memory_bytes),
        **under_muon,
        "searched": _searched(model),
    }


def _searched(model: PlannedModel) -> str:
    """List the sizes of a model that matching has searched."""
    config = model.config
    values = config.config if isinstance(config, ModuleConfig) else config.to_dict()
    return ", ".join(f"{field} {values[field]}" for field in model.searched) or "-"


def _sizes_row(model: PlannedModel) -> dict[str, object]:
    """Make the row of the sizes of a model of the bundled family."""
    config = model.config.to_dict()
    return {"model": model.name, **{name: config[field] for name, field in SIZES.items()}}


def _difference(ours: float, theirs: float) -> str:
    return f"{100 * (ours / theirs - 1):+.2f} %" if theirs else "-"
