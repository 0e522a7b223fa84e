"""`dreamer plan`: print what a study will need, computed from its configuration alone, without any work."""

from __future__ import annotations

import argparse

import pandas as pd

from flows.commands.data_plan import amount, data_tables
from flows.commands.tables import console, print_table
from flows.running.devices import concurrency, gpus
from flows.stages.checks import checkpoint_bytes, state_bytes
from flows.stages.models import PlannedModel, plan_models
from flows.study.configuration import BUILTIN, Study
from flows.study.loading import load_study
from flows.study.noise import noise_of
from model.accounting import training_flops_per_token
from pipeline.errors import InputError
from pipeline.sources.source import notices
from pipeline.sources.table import resolve_source
from reports.text.numbers import duration
from sql.statistics.resolution import smallest_factor

# Useful FLOPs per second in training, as measured (docs/log.md): small models on a CPU core, 15 % of a GPU's peak.
CPU_CORE_FLOPS = 60e9  # with native.c on a processor with AVX-512; about half of that without a compiler
GPU_FLOPS = 0.15 * 989e12


def plan(options: argparse.Namespace) -> None:
    """Print the matched models (Tables 1 and 3), the sources and data stages, then tokens, compute, disk and time.

    The mismatch columns are what matching leaves between a model and LA; estimates name the assumptions behind them.
    Raises InputError when the vocabulary is unknown before the tokenizer is read, a model cannot be matched, or the
    mirror does not exist.
    """
    study = load_study(options.study, mirror=options.mirror, root=options.root)
    if study.data.mirror and not study.data.mirror.is_dir():
        raise InputError(f"data.mirror: there is no folder {study.data.mirror}")
    size = study.data.tokenizer.vocabulary_size
    if size is None:
        raise InputError(
            "data.tokenizer.vocabulary_size: give it beside 'hub' or 'file', so that the models can be sized beforehand"
        )
    planned = plan_models(study, size)
    console.print(f"{study.study_id}\n")
    baselines = _baselines(study, planned)
    print_table(pd.DataFrame([_model_row(model, baselines.get(model.depth)) for model in planned]))
    sources, stages, data = data_tables(study)
    for table in (sources, stages):
        console.print()
        print_table(table)
    training = study.training
    screened = training.screening if len(training.seeds) > 1 else 0
    seeds = 1 + screened * (len(training.seeds) - 1) if screened else len(training.seeds)
    flops = sum(training_flops_per_token(m.config, training.sequence_length) * training.tokens * seeds for m in planned)
    on_gpu, count = gpus(study) > 0, concurrency(study) * training.nodes
    rate = GPU_FLOPS if on_gpu else CPU_CORE_FLOPS
    kinds = "raw and averaged " if training.averaging else ""
    checkpoints, state = checkpoint_bytes(study, planned), state_bytes(study, planned)
    tokens = training.tokens * (2 if size <= 2**16 else 4)
    points = len(training.points)
    gpu = f"GPU at {GPU_FLOPS / 1e12:.0f} TFLOP/s"
    kind = gpu if on_gpu else f"CPU core at {CPU_CORE_FLOPS / 1e9:.0f} GFLOP/s"
    lines = {
        **data,
        "tokens": f"{training.tokens:,} for each model, in steps of {training.batch_tokens:,}; {points} checkpoints",
        "seeds": f"{len(training.seeds)}"
        + (f", all to {training.screening:.0%} of the tokens, the best to the end" if screened else ""),
        "compute": f"{flops:.3g} FLOPs of training",
        "time": f"{duration(flops / rate / count)} of training on {count} x {kind}, as here; evaluation comes on top",
        "": "" if on_gpu else f"{duration(flops / GPU_FLOPS)} of training on one {gpu} (15 % of an H200's peak)",
        "products": _slow_products(study) if on_gpu else None,
        "tells": _resolution(study),
        "disk": f"{amount(checkpoints)} of {kinds}checkpoints, {amount(state)} to resume from, "
        f"{amount(tokens)} of tokens",
    }
    console.print()
    for name, words in lines.items():
        if words:
            console.print(f"{name:<9} {words}", soft_wrap=True)
    for entry in study.data.sources:
        for notice in notices(resolve_source(entry)) if entry != BUILTIN else ():
            console.print(f"{'note':<9} {notice}", soft_wrap=True)


def _slow_products(study: Study) -> str | None:
    import torch

    from model.ops.device import choose_precision
    from model.ops.gpu import slow_products

    device = torch.device("cuda", 0)
    return slow_products(device, choose_precision(study.training.precision, device))


def _resolution(study: Study) -> str:
    """Say which mean factor the study tells from 1, and with one more seed."""
    noise, seeds = noise_of(study), 1 if study.training.stop_at else len(study.training.seeds)
    told, more = (smallest_factor(noise, count) for count in (seeds, seeds + 1))
    by = f"by the noise of {noise.measured_on}"
    if seeds == 1:
        return f"no factor from 1: one seed of each model shows no spread; two would tell {more:.2f}, {by}"
    few = f"one more seed would tell {more:.2f}"
    return f"a mean factor of {told:.2f} from 1 in four of five such studies, with {seeds} seeds; {few}; {by}"


def _baselines(study: Study, planned: list[PlannedModel]) -> dict[int, PlannedModel]:
    """Find the LA of each depth that the other models were matched to, where the study has an unchanged LA."""
    names = {v.name for v in study.models.variants if v.family == "LA" and not v.overrides}
    return {model.depth: model for model in planned if model.variant in names}


def _model_row(model: PlannedModel, baseline: PlannedModel | None) -> dict[str, object]:
    config = model.config
    mismatch = {
        name: f"{100 * (ours / theirs - 1):+.2f} %" if theirs else "-"
        for name, ours, theirs in (
            ("FLOPs to LA", model.flops_per_token, baseline and baseline.flops_per_token),
            ("parameters to LA", model.parameters, baseline and baseline.parameters),
        )
    }
    return {
        "model": model.model_id,
        "parameters": model.parameters,
        "FLOPs/token": model.flops_per_token,
        **mismatch,
        "memory": amount(model.memory_bytes),
        "expert size": config.expert_size,
        "experts": config.experts,
        "active": config.active_experts,
        "hidden": config.hidden_size,
        "depth": config.depth,
    }
