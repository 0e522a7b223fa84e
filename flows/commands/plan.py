"""`dreamer plan`: what a study will need, computed from its configuration alone; it does no work."""

from __future__ import annotations

import pandas as pd

from flows.commands.data_plan import amount, data_tables
from flows.commands.show import console, print_table
from flows.stages.train import Planned, accelerators, devices, plan_models
from flows.study.configuration import BUILTIN, Study
from model.accounting import flops_per_token
from pipeline.errors import InputError
from pipeline.sources.source import notices
from pipeline.sources.table import resolve_source

# Useful FLOPs per second in training, as measured (docs/log.md): small models on a CPU core, a share of a GPU's peak.
CPU_CORE_FLOPS = 60e9  # with native.c on a processor with AVX-512; about half of that without a compiler
GPU_FLOPS = 0.15 * 989e12
BACKWARD = 3  # a forward and a backward pass cost three forward passes


def print_plan(study: Study) -> None:
    """The matched models (Table 1 and 3) and what matching leaves between them, the sources and the data stages, then
    tokens, compute, disk and time, with the assumptions they rest on.

    Raises InputError when the vocabulary is unknown before the tokenizer is read, a model cannot be matched, or there
    is no such mirror.
    """
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
    flops = sum(
        BACKWARD * flops_per_token(m.config, training.sequence_length) * training.tokens * seeds for m in planned
    )
    on_gpu, count = accelerators(study) > 0, devices(study)
    rate = GPU_FLOPS if on_gpu else CPU_CORE_FLOPS
    kept = len(training.points) * (1 if screened else len(training.seeds))
    checkpoints = sum(4 * model.parameters * kept for model in planned)
    state = sum(12 * model.parameters * len(training.seeds) for model in planned)
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
        "time": f"{_duration(flops / rate / count)} of training on {count} x {kind}, as here; evaluation comes on top",
        "": "" if on_gpu else f"{_duration(flops / GPU_FLOPS)} of training on one {gpu} (15 % of an H200's peak)",
        "disk": f"{amount(checkpoints)} of checkpoints, {amount(state)} to resume from, {amount(tokens)} of tokens",
    }
    console.print()
    for name, words in lines.items():
        if words:
            console.print(f"{name:<9} {words}", soft_wrap=True)
    for entry in study.data.sources:
        for notice in notices(resolve_source(entry)) if entry != BUILTIN else ():
            console.print(f"{'licence':<9} {notice}", soft_wrap=True)


def _baselines(study: Study, planned: list[Planned]) -> dict[int, Planned]:
    """The model of each depth that the others were matched to, where it is one of the study's: LA as it stands."""
    names = {v.name for v in study.models.variants if v.family == "LA" and not v.overrides}
    return {model.depth: model for model in planned if model.variant in names}


def _model_row(model: Planned, baseline: Planned | None) -> dict[str, object]:
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


def _duration(seconds: float) -> str:
    for name, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} seconds"
