"""Check a study before it starts: what can be known to fail hours later is one line in the first
second."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from dreamer_study.flows.jobs.devices import gpus, machine_memory, share_ranks
from dreamer_study.flows.plan.data_plan import PlannedData
from dreamer_study.flows.plan.model_plan import PlannedModel, check_trusted, plan_models, size
from dreamer_study.flows.progress.disk import folder_size, free_bytes
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.evaluation.lm_eval_files import find_task, read_task
from dreamer_study.model.evaluation.trust import check_overrides
from dreamer_study.model.matching import EXPERTS
from dreamer_study.pipeline.benchmarks.items import task_file, task_specifications
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.read import check_rows
from dreamer_study.pipeline.sources.repositories.folders import source_files
from dreamer_study.pipeline.tokens.tokenizer import read_tokenizer

UNKNOWN_VOCABULARY = 1024  # stands for that of a tokenizer which is not read yet


def check_study(study: Study, *, trust_code: bool = False) -> None:
    """Check mirror, devices, files, memory and disk of a study.

    Raises InputError for devices that are not there, a benchmark that runs code which is not
    trusted, a source whose first rows do not fit its columns, a tokenizer that cannot be read, a
    cluster without Dask, and models that fit neither the memory nor the disk.
    """
    check_trusted(study, trust_code=trust_code)
    check_data(study, trust_code=trust_code)
    if file := study.tokenizer_file:
        read_tokenizer(file)
    vocabulary_size = study.data.tokenizer.vocabulary_size or UNKNOWN_VOCABULARY
    planned = plan_models(
        study, vocabulary_size, partial(size, code=study.place, trust_code=trust_code)
    )
    if not study.compute.cluster:
        if study.training.device == "cuda" and not gpus(study):
            raise InputError(
                "training.device is 'cuda', but torch sees no CUDA device here; say 'cpu' or 'auto'"
            )
        share_ranks(study, len(planned), [gpus(study)])
        _check_memory(study, planned)
    elif importlib.util.find_spec("distributed") is None:
        raise InputError(
            "compute.cluster: Dask is not installed; pip install 'dreamer-study[cluster]'"
        )
    if study.tracking and importlib.util.find_spec(study.tracking) is None:
        raise InputError(
            f"tracking: {study.tracking} is not installed; pip install 'dreamer-study[tracking]'"
        )
    _check_disk(study, planned)


def study_warnings(study: Study) -> list[str]:
    """List what a person should know of a study that is right, in one line each: mostly nothing."""
    found = []
    named = (*study.own_sources, *study.own_benchmarks)
    if unpinned := [one.name for one in named if one.repository and not one.revision]:
        found.append(
            f"no revision pins {', '.join(unpinned)}: what the hub or the mirror holds today is"
            " read, and its commit, where known, noted in `sources`; `dreamer sources --check`"
            " with the study's file prints the pins"
        )
    if study.training.tune and "learning_rate" in study.training.model_fields_set:
        found.append(
            "training.learning_rate is not used: training.tune chooses one for each model without"
            " its own"
        )
    training = study.training
    steps = (
        min(training.tokens, training.tune.tokens if training.tune else training.tokens)
        // training.batch_tokens
    )
    if training.warmup_steps >= steps:
        found.append(
            f"training.warmup_steps is {training.warmup_steps:,}, and {steps:,} steps are trained:"
            " the learning rate never reaches its full height"
        )
    for variant in study.models.variants:
        by_experts = (
            variant.matched
            and variant.match in (None, True)
            and variant.name != study.models.compared_with
        )
        if by_experts and (
            lost := [name for name in EXPERTS.values() if name in variant.overrides]
        ):
            found.append(
                f"models.variants: {variant.name}: {' and '.join(lost)} of its overrides do not"
                " stay: matching chooses them for equal costs; match: false keeps them"
            )
    return found


def check_data(study: Study, *, trust_code: bool = False) -> None:
    """Check the mirror, the benchmarks, and the first rows of the sources that are here.

    So a wrong path, column, template or delimiter is told at once, and a mirror that is not there
    also where nothing of it is needed.
    """
    if study.mirror and not study.mirror.is_dir():
        raise InputError(f"data.mirror: there is no folder {study.mirror}")
    check_benchmarks(study, trust_code=trust_code)
    data = PlannedData(study)
    for source in study.own_sources:
        if folder := data.find(source):
            check_rows(source, source_files(source, folder))
    for benchmark in study.own_benchmarks:
        if (benchmark.yaml or benchmark.overrides) and (folder := data.find(benchmark)):
            # lm-eval takes two seconds
            from dreamer_study.model.evaluation.lm_eval_definitions import (
                build_task,
                tune_libraries,
            )

            tune_libraries()
            with TemporaryDirectory() as place:
                for one in task_specifications(
                    benchmark, folder, place, beside=study.place, mirror=study.mirror
                ):
                    build_task(one, place, trust_code=trust_code)


def check_benchmarks(study: Study, *, trust_code: bool = False) -> None:
    """Check that the tasks of a study's benchmarks are there, with their metrics, and run no code
    unless trusted."""
    for benchmark in study.own_benchmarks:
        own, where = (
            task_file(benchmark, study.place, study.mirror),
            f"benchmark {benchmark.name!r}",
        )
        files = (
            [Path(own)]
            if own
            else []
            if benchmark.text
            else [*map(find_task, benchmark.tasks.values())]
        )
        if not trust_code:
            check_overrides(benchmark.overrides, where)
        for file in files:
            known = read_task(file, where, trust_code=trust_code).metrics()
            if known and "metric_list" not in benchmark.overrides and benchmark.metric not in known:
                raise InputError(
                    f"{where}: {file} has no metric {benchmark.metric!r}; it has {', '.join(known)}"
                )


@dataclass(frozen=True)
class Training:
    """A training that a study wants: of a model, from and to so many tokens, with so many
    checkpoints on the way."""

    model: PlannedModel
    start: int
    end: int
    checkpoints: int


def phases(study: Study, planned: Sequence[PlannedModel]) -> list[list[Training]]:
    """List the trainings of a study in phases: the search for rates, all seeds, who goes on after a
    race.

    A search is counted without the rates by which its grid may grow.
    """
    training, tune = study.training, study.training.tune
    search, first, further = [], [], []
    for model in planned:
        seeds = len(study.seeds_of(model.variant))
        race = training.stop_at(seeds)
        written = sum(point <= (race or training.tokens) for point in training.points)
        first += [Training(model, 0, race or training.tokens, written)] * seeds
        if race:
            further.append(Training(model, race, training.tokens, len(training.points) - written))
        if tune and "learning_rate" not in study.variant(model.variant).training:
            search += (
                [Training(model, 0, tune.tokens, 1)] * len(tune.learning_rate) * len(tune.seeds)
            )
    return [phase for phase in (search, first, further) if phase]


def bytes_written(study: Study, planned: Sequence[PlannedModel]) -> tuple[int, int]:
    """Count the bytes of all checkpoints, averaged and as `evaluation.weights` asks raw, and of all
    states."""
    trainings = [one for phase in phases(study, planned) for one in phase]
    kinds = 1 if not study.training.averaging or study.evaluation.weights == "averaged" else 2
    checkpoints = 4 * kinds * sum(one.model.parameters * one.checkpoints for one in trainings)
    return checkpoints, sum(state_bytes(study, one.model) for one in trainings if not one.start)


def state_bytes(study: Study, model: PlannedModel) -> int:
    """Count the bytes to resume a training from: weights, two moments, and the average where one is
    kept."""
    return 4 * (4 if study.training.averaging else 3) * model.parameters


def _check_memory(study: Study, planned: Sequence[PlannedModel]) -> None:
    """Raise InputError for a model whose weights, gradients and two moments alone are more than the
    memory."""
    largest = max(planned, key=lambda model: model.parameters)
    needed = 16 * largest.parameters
    if gpus(study):
        import torch

        place, there = (
            "a GPU here",
            torch.cuda.get_device_properties(0).total_memory / study.compute.per_gpu,
        )
        place += f" that {study.compute.per_gpu} trainings share (compute.per_gpu)" * (
            study.compute.per_gpu > 1
        )
    else:
        place, there = "this machine", machine_memory()
    if needed > there:
        raise InputError(
            f"{largest.model_id} has {largest.parameters:,} parameters and needs at least"
            f" {needed / 1e9:,.1f} GB to be trained; {place} has {there / 1e9:,.1f} GB for it; make"
            " models.dreamer smaller, or its config"
        )


def _check_disk(study: Study, planned: Sequence[PlannedModel]) -> None:
    """Raise InputError if training writes more than is free; what the store holds of that already
    is not counted."""
    needed, free = sum(bytes_written(study, planned)), free_bytes(study.store_folder)
    if needed > free and needed - folder_size(study.store_folder / "runs") > free:
        raise InputError(
            f"{study.store_folder}: training writes {needed / 1e9:,.1f} GB of checkpoints and"
            f" states, and {free / 1e9:,.1f} GB are free; take fewer training.checkpoints, or a"
            " larger disk with --root"
        )
