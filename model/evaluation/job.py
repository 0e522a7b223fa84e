"""Read and check a job file: which checkpoints are evaluated on which tasks, with which
settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.settings import Count, FileName, checked, parse_file

# stands for a benchmark: what is observed of a model's attention and experts
INTROSPECTION = "introspection"


@checked("evaluation")
class EvaluationSettings:
    """The settings of an evaluation; the one definition for job files and the section `evaluation`
    of a study file.

    Raises InputError, naming field, value and rule.
    """

    limit: Count | None = None  # items of each task; None: all
    # of an answer, where the task does not say; None: lm-eval's 256
    max_new_tokens: Count | None = None
    # positions in a batch, padding included; None: what suits the device
    batch_tokens: Count | None = None
    # other depths at which the last checkpoint of each recurrent run is evaluated
    depths: tuple[Count, ...] = ()
    weights: Literal["averaged", "raw", "both"] = "averaged"  # "raw": as trained


@checked("output")
class Output:
    """The folder for the rows of a checkpoint and a benchmark; `configuration` is what decides the
    rows."""

    folder: Path
    configuration: dict[str, Any] | None = None


@checked("checkpoint")
class Checkpoint:
    """A model to evaluate: its run, the tokens it was trained on, its folder, and an output for
    each benchmark."""

    run_id: FileName
    tokens: Annotated[int, Field(ge=0)]
    path: Path
    outputs: dict[str, Output]
    answers: bool = False  # whether what the model answers is stored too, not only how right it is


@checked("job")
class Job(EvaluationSettings):
    """Say which checkpoints are evaluated on which tasks. Paths are absolute: a run of a study
    writes its jobs anew."""

    checkpoints: Annotated[tuple[Checkpoint, ...], Field(min_length=1)]
    tokenizer: Path
    tasks: tuple[dict[str, Any], ...]  # specifications, as of `pipeline/benchmarks/items.py`
    output: Path  # a folder for the progress of the job
    device: str = "auto"
    trust_code: bool = False  # tasks and overrides may run Python
    # packed tokens, on rows of which attention is observed; None: it is not
    observe: Path | None = None


def read_job(path: Path | str) -> Job:
    """Read a job file. Raises InputError if the file is missing or damaged, or a field is missing,
    unknown or wrong."""
    try:
        job = parse_file(Job, Path(path))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such job file") from None
    return dataclasses.replace(job, depths=tuple(dict.fromkeys(job.depths)))
