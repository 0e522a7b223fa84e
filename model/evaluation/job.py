"""Read and check a job file: which checkpoints are evaluated on which tasks.

A study writes one `job.json` for each process that evaluates; for example

    {
      "checkpoints": [
        {
          "run_id": "LA-2-s0-e035352e",
          "tokens": 3024,
          "path": "/home/ada/runs/demo/store/runs/LA-2-s0-e035352e/checkpoints/000000000003024",
          "answers": true,
          "outputs": {
            "world_choice": {
              "folder": "/home/ada/runs/demo/store/evaluations/0bf65647400eba69",
              "configuration": {
                "tokens": 3024, "benchmark": "world_choice", "limit": 5, "max_new_tokens": null,
                "weights": "both", "depths": [],
                "content": {"data": [], "tasks": [{"task": "world_choice", "metric": "acc", ...}]}
              }
            },
            "validation": {"folder": "/home/ada/runs/demo/store/evaluations/6b2d91560ed0b0b3"}
          }
        }
      ],
      "tokenizer": "/home/ada/runs/demo/store/tokenizer/bbe8e35d3d666eea",
      "tasks": [
        {"benchmark": "world_choice", "task": "world_choice", "metric": "acc", "filter": "none",
         "chance": 0.25, "dataset_path": "/home/ada/.../builtin/world",
         "yaml": "/home/ada/.../tasks/world_choice.yaml", "overrides": {}},
        {"benchmark": "validation", "task": "validation", "metric": "bits_per_byte",
         "filter": "none", "chance": null, "plain": "/home/ada/.../validation.all.items.jsonl"}
      ],
      "output": "/home/ada/runs/demo/evaluating/LA-2-s0-e035352e-3024",
      "limit": 5, "max_new_tokens": null, "batch_tokens": null, "weights": "both", "depths": [],
      "device": "cpu", "trust_code": false, "observe": null
    }
"""

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
    """The settings of an evaluation.

    The one definition for job files and for the section `evaluation` of a study file. Raises
    InputError, naming field, value and rule.
    """

    limit: Count | None = None
    """Items of each task, a seeded sample; null: all."""
    max_new_tokens: Count | None = None
    """Most tokens of a written answer, where the task gives no number; null: lm-eval's 256."""
    batch_tokens: Count | None = None
    """Tokens in a batch, padding included; null: what suits the device."""
    depths: tuple[Count, ...] = ()
    """Further depths at which the last checkpoint of each recurrent run is evaluated."""
    weights: Literal["averaged", "raw", "both", "branches"] = "averaged"
    """Weights to evaluate: their running average, the raw ones of the last step, both of these, or
    those at the end of the branches that `training.branches` asks for.
    """


@checked("output")
class EvaluationOutput:
    """The folder for the rows of a checkpoint and a benchmark; `configuration` decides the rows."""

    folder: Path
    configuration: dict[str, Any] | None = None


@checked("checkpoint")
class EvaluatedCheckpoint:
    """A model to evaluate: its run, its tokens so far, its folder, an output for each benchmark."""

    run_id: FileName
    tokens: Annotated[int, Field(ge=0)]
    path: Path
    outputs: dict[str, EvaluationOutput]  # by benchmark
    answers: bool = False  # whether what the model answers is stored too, not only how right it is
    code: dict[str, str] | None = None  # digests of its class's files as planned; None: as it says


@checked("job")
class EvaluationJob(EvaluationSettings):
    """Say which checkpoints are evaluated on which tasks.

    Paths are absolute: each run of a study writes its jobs anew.
    """

    checkpoints: Annotated[tuple[EvaluatedCheckpoint, ...], Field(min_length=1)]
    tokenizer: Path
    tasks: tuple[dict[str, Any], ...]  # specifications, as of `pipeline/benchmarks/items.py`
    output: Path  # a folder for the progress of the job
    device: str = "auto"
    trust_code: bool = False  # tasks and overrides may run Python
    # packed tokens, on rows of which attention is observed; None: it is not
    observe: Path | None = None


def read_job(path: Path | str) -> EvaluationJob:
    """Read a job file.

    Raises InputError if the file is missing or damaged, or a field is missing, unknown or wrong.
    """
    try:
        job = parse_file(EvaluationJob, Path(path))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such job file") from None
    return dataclasses.replace(job, depths=tuple(dict.fromkeys(job.depths)))
