"""Check a study before it starts: what would fail hours later is one line in the first second."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dreamer_study.flows.jobs.devices import gpus, machine_memory, share_ranks
from dreamer_study.flows.plan.data_plan import PlannedData
from dreamer_study.flows.plan.model_plan import PlannedModel, check_trusted
from dreamer_study.flows.plan.sizes import sized_models
from dreamer_study.flows.progress.disk import folder_size, free_bytes
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.models_section import Variant
from dreamer_study.model.evaluation.lm_eval_files import find_task, read_task
from dreamer_study.model.evaluation.trust import check_overrides
from dreamer_study.model.matching import EXPERTS
from dreamer_study.model.training.recipe import branch_tokens
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.benchmarks.items import task_file, task_specifications
from dreamer_study.pipeline.errors import InputError, check_addresses
from dreamer_study.pipeline.sources.read import check_rows
from dreamer_study.pipeline.sources.repositories.folders import source_files
from dreamer_study.pipeline.tokens.tokenizer import read_tokenizer
from dreamer_study.reports.figures.addresses import check_drawing

CLUSTER = "DREAMER_CLUSTER"  # the scheduler that the user trusts, an address
UNKNOWN_VOCABULARY = 1024  # instead of that of a tokenizer which is not read yet
RUN_ADDRESSES = 4e9  # bytes that a run reserves: below 3 GB compiled libraries end by a crash
VALUES_OF_BRANCH = 3  # of each parameter: weight and two moments; a branch has no average
TRAINED_BYTES = 16  # of each parameter: weight, gradient and two moments in float32


def no_data(study: Study) -> float:
    """Count no bytes of data."""
    return 0.0


def check_study(
    study: Study,
    *,
    trust_code: bool = False,
    draws: bool = True,
    data_bytes: Callable[[Study], float] = no_data,
) -> None:
    """Check mirror, devices, files, memory and disk of a study.

    `draws`: whether the run ends with a report. `data_bytes` estimates what the data take of the
    disk. Raises InputError for devices that are not there, a benchmark that runs code which is not
    trusted, a variant that another study trained under other settings, a source whose first rows do
    not fit its columns, a tokenizer that cannot be read, a cluster without Dask, and models that
    fit neither the memory nor the disk.
    """
    check_addresses(RUN_ADDRESSES, "a study")
    if draws:
        check_drawing()
    check_trusted(study, trust_code=trust_code)
    check_cluster(study, trust_code=trust_code)
    check_data(study, trust_code=trust_code)
    tokenizer = PlannedData(study).tokenizer_file
    if tokenizer:
        read_tokenizer(tokenizer)
    vocabulary_size = study.data.tokenizer.vocabulary_size or UNKNOWN_VOCABULARY
    planned = sized_models(study, vocabulary_size, trust_code=trust_code)
    _check_extras(study)
    if not study.compute.cluster:  # whose machines are looked at when the study connects to it
        _check_devices(study, planned)
        _check_memory(study, planned)
    _check_disk(study, planned, data_bytes(study))


def check_cluster(study: Study, *, trust_code: bool) -> None:
    """Raise InputError where the study file names a Dask scheduler that the user does not trust.

    A client of Dask runs what the scheduler and its workers send.
    """
    cluster = study.compute.cluster
    if not trust_code and cluster not in (None, "local", os.environ.get(CLUSTER)):
        raise InputError(
            f"compute.cluster: the study file names the Dask scheduler {cluster}, which could run"
            f" code here; if you trust that scheduler, set {CLUSTER}={cluster} in the environment,"
            " or say --trust-code (Prefect: trust_code)"
        )


def _check_extras(study: Study) -> None:
    """Raise InputError where the study needs a package that is not installed."""
    if study.compute.cluster and importlib.util.find_spec("distributed") is None:
        raise InputError(
            "compute.cluster: Dask is not installed; pip install 'dreamer-study[cluster]'"
        )
    if study.tracking and importlib.util.find_spec(study.tracking) is None:
        raise InputError(
            f"tracking: {study.tracking} is not installed; pip install 'dreamer-study[tracking]'"
        )


def _check_devices(study: Study, planned: Sequence[PlannedModel]) -> None:
    """Raise InputError where this machine has no GPU, or too few, for a study that wants them."""
    if study.training.device == "cuda" and not gpus(study):
        raise InputError(
            "training.device is 'cuda', but torch finds no CUDA device here; say 'cpu' or 'auto'"
        )
    share_ranks(study, len(planned), [gpus(study)])


def study_warnings(study: Study) -> list[str]:
    """List what a person should know of a study that is right, in one line each: mostly nothing."""
    warnings = []
    training = study.training
    named = (*study.own_sources, *study.own_benchmarks)
    unpinned = [entry.name for entry in named if entry.repository and not entry.revision]
    if unpinned:
        warnings.append(
            f"no revision pins {', '.join(unpinned)}: what the hub or the mirror holds today is"
            " read, and its commit, where known, noted in `sources`; `dreamer sources --check`"
            " with the study's file prints the pins"
        )
    searched = training.tune.grids if training.tune else {}
    for name in searched:
        if name in training.model_fields_set:
            warnings.append(
                f"training.{name} is not used: training.tune chooses one for each model without"
                " its own"
            )
    shortest = min(training.tokens, training.tune.tokens) if training.tune else training.tokens
    steps = shortest // training.batch_tokens
    if training.warmup_steps >= steps:
        warnings.append(
            f"training.warmup_steps is {training.warmup_steps:,}, and {steps:,} steps are trained:"
            " the learning rate never reaches its full height"
        )
    for variant in study.models.trained:
        lost = _overrides_that_matching_replaces(study, variant)
        if lost:
            warnings.append(
                f"models.variants: {variant.name}: {' and '.join(lost)} of its overrides do not"
                " stay: matching chooses them for equal costs; match: false keeps them"
            )
    return warnings


def _overrides_that_matching_replaces(study: Study, variant: Variant) -> list[str]:
    is_reference = variant.name == study.models.compared_with
    by_experts = variant.matched and variant.match in (None, True) and not is_reference
    if not by_experts:
        return []
    return [name for name in EXPERTS.values() if name in variant.overrides]


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
        folder = data.find(source)
        if folder:
            check_rows(source, source_files(source, folder))
    for benchmark in study.own_benchmarks:
        if not benchmark.yaml and not benchmark.overrides:
            continue  # lm-eval's own definitions are known to be right
        folder = data.find(benchmark)
        if folder:
            _build_tasks(study, benchmark, folder, trust_code=trust_code)


def _build_tasks(study: Study, benchmark: Benchmark, folder: Path, *, trust_code: bool) -> None:
    """Build the tasks of a benchmark as an evaluation would, to see that they can be built.

    Each of its items must have a right answer.
    """
    # lm-eval takes two seconds
    from dreamer_study.model.evaluation.lm_eval_definitions import (
        bounded_prompts,
        build_task,
        tune_libraries,
    )
    from dreamer_study.model.evaluation.right_answers import check_right_answers

    tune_libraries()
    with TemporaryDirectory() as texts:
        specifications = task_specifications(
            benchmark, folder, texts, beside=study.place, mirror=study.mirror
        )
        for specification in specifications:
            with bounded_prompts(specification):
                task = build_task(specification, texts, trust_code=trust_code)
                check_right_answers(task, specification)


def check_benchmarks(study: Study, *, trust_code: bool = False) -> None:
    """Check that the tasks of a study's benchmarks are there, with their metrics.

    Unless code is trusted, they must run none.
    """
    for benchmark in study.own_benchmarks:
        where = f"benchmark {benchmark.name!r}"
        files = _task_files(study, benchmark)
        if not trust_code:
            check_overrides(benchmark.overrides, where)
        for file in files:
            metrics = read_task(file, where, trust_code=trust_code).metrics()
            defines_own = "metric_list" in benchmark.overrides
            if metrics and not defines_own and benchmark.metric not in metrics:
                raise InputError(
                    f"{where}: {file} has no metric {benchmark.metric!r}; it has"
                    f" {', '.join(metrics)}"
                )


def _task_files(study: Study, benchmark: Benchmark) -> list[Path]:
    """Return the files that define a benchmark's tasks, as lm-eval reads them."""
    own_file = task_file(benchmark, study.place, study.mirror)
    if own_file:
        return [Path(own_file)]
    if benchmark.text:
        return []  # texts are scored without a definition
    return [find_task(task) for task in benchmark.tasks.values()]


@dataclass(frozen=True)
class Training:
    """A training that a study wants: a model, from `start` tokens to `end` tokens.

    `checkpoints` counts the checkpoints that are written on the way, `branched` the tokens of all
    branches from them.
    """

    model: PlannedModel
    start: int
    end: int
    checkpoints: int
    branched: int = 0

    @property
    def tokens(self) -> int:
        """All tokens of the training, with those of its branches."""
        return self.end - self.start + self.branched


def phases(study: Study, planned: Sequence[PlannedModel]) -> list[list[Training]]:
    """List the trainings of a study in phases: the search for rates, all seeds, winners of races.

    A search is counted without the values by which its grids may grow.
    """
    training = study.training
    search: list[Training] = []
    first: list[Training] = []
    after_race: list[Training] = []
    for model in planned:
        seeds = len(study.seeds_of(model.variant))
        race_ends = training.stop_at(seeds)
        end = race_ends or training.tokens
        first += [_training(study, model, 0, end)] * seeds
        if race_ends:
            after_race.append(_training(study, model, race_ends, training.tokens))
        tune = training.tune
        searched = study.searched(model.variant)
        if tune and searched:
            tried = math.prod(len(tune.grids[name]) for name in searched)
            search += [Training(model, 0, tune.tokens, 1)] * (tried * len(tune.seeds))
    return [phase for phase in (search, first, after_race) if phase]


def _training(study: Study, model: PlannedModel, start: int, end: int) -> Training:
    """Describe a training of the study, with the checkpoints and branches after its start."""
    training = study.training
    points = [point for point in training.points if start < point <= end]
    if not start:
        points = [point for point in training.points if point <= end]
    branched = sum(branch_tokens(training.branches, point) for point in points)
    return Training(model, start, end, len(points), branched)


def bytes_written(study: Study, planned: Sequence[PlannedModel]) -> tuple[int, int]:
    """Count the bytes of all checkpoints, and those of all states to resume from.

    Checkpoints hold averaged weights, and raw ones as `evaluation.weights` asks. A branch has
    weights of its own, and a state while it is trained.
    """
    trainings = [training for phase in phases(study, planned) for training in phase]
    has_both = study.training.averaging and study.evaluation.weights in ("raw", "both")
    kinds = 2 if has_both else 1
    checkpoints = states = 0
    for training in trainings:
        folders = kinds * training.checkpoints
        if training.branched:
            folders += training.checkpoints
        checkpoints += 4 * folders * training.model.parameters  # float32
        # the winner of a race continues in the folder that it has
        if not training.start:
            states += state_bytes(study, training.model)
            if training.branched:
                states += 4 * VALUES_OF_BRANCH * training.model.parameters
    return checkpoints, states


def state_bytes(study: Study, model: PlannedModel) -> int:
    """Count the bytes to resume a training from: weights, two moments, and the average if any."""
    values_of_parameter = 4 if study.training.averaging else 3
    return 4 * values_of_parameter * model.parameters


def _check_memory(study: Study, planned: Sequence[PlannedModel]) -> None:
    """Raise InputError for a model that the memory cannot hold, even without its activations."""
    largest = max(planned, key=lambda model: model.parameters)
    needed = TRAINED_BYTES * largest.parameters
    if gpus(study):
        import torch

        per_gpu = study.compute.per_gpu
        device = "a GPU here"
        if per_gpu > 1:
            device += f" that {per_gpu} trainings share (compute.per_gpu)"
        available = torch.cuda.get_device_properties(0).total_memory / per_gpu
    else:
        device = "this machine"
        available = machine_memory()
    if needed > available:
        raise InputError(
            f"{largest.name} has {largest.parameters:,} parameters and needs at least"
            f" {needed / 1e9:,.1f} GB to be trained; {device} has {available / 1e9:,.1f} GB for it;"
            " make models.dreamer smaller, or its config"
        )


def _check_disk(study: Study, planned: Sequence[PlannedModel], data: float) -> None:
    """Raise InputError if data and trainings write more than is free, besides what is stored."""
    checkpoints = sum(bytes_written(study, planned))
    needed = checkpoints + data
    free = free_bytes(study.store_folder)
    if needed <= free:
        return
    folders = (study.store_folder,) if data else (study.store_folder / "runs",)
    stored = sum(map(folder_size, folders))
    if needed - stored <= free:
        return
    raise InputError(
        f"{study.store_folder}: training writes {checkpoints / 1e9:,.1f} GB of checkpoints and"
        f" states, the data at least {data / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free; take"
        " fewer training.checkpoints or fewer rows (data.limit, data.world), or a larger disk with"
        " --root"
    )
