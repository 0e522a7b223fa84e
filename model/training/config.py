"""Read and check `run.json`, the description of one training run.

A study writes it to the folder of each run, `python -m dreamer_study.model.train <folder>` reads
it, and a run by hand needs no more than the packed data that it names (relative to the folder):

    {
      "run_id": "LA-2-s0-e035352e",
      "variant": "LA",
      "depth": 2,
      "seed": 0,
      "model": {
        "depth": 2, "recurrent": false, "depth_attention": false, "mixture": "partial",
        "vocabulary_size": 400, "hidden_size": 32, "query_heads": 2, "key_value_heads": 1,
        "head_size": 16, "depth_heads": 1, "depth_key_value_heads": 1, "depth_head_size": 16,
        "depth_window": null, "experts": 4, "active_experts": 2, "expert_size": 32,
        "routing_size": 16, "sequence_length": 128, "shared_expert": true, "rope_base": 10000.0,
        "depth_rope_base": 500.0, "expert_bias_rate": 0.001, "attention_bias_rate": 0.01,
        "norm_epsilon": 1e-06
      },
      "training": {
        "tokens": 3000, "batch_tokens": 512, "learning_rate": 0.002, "warmup_steps": 5,
        "schedule": "constant", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-08,
        "weight_decay": 0.001, "clip": 0.5, "averaging": 18.0, "loss_on": "responses",
        "checkpoints": [3000], "device": "cpu", "precision": "auto", "checkpointing": false,
        "save_every_seconds": 1.0, "keep": 1, "seed": 0, "raw_checkpoints": true
      },
      "data": "../../tokens/8e10657c94a26a48",
      "seal": "53e1f0c6a2b94d87"
    }

A study seals the file: what was changed since, by a bad disk or by hand, is not trained. A file
written by hand has no `seal`.

Fields that are left out have the defaults below; a model of the user's is `{"module": ...}`
(`model/module_config.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from dreamer_study.model.module_config import Architecture, read_architecture
from dreamer_study.model.training.recipe import (
    ADAMW,
    MUON,
    Decay,
    Finite,
    Optimizer,
    Positive,
    RateDecay,
    Schedule,
    branch_tokens,
)
from dreamer_study.pipeline.errors import InputError, placing
from dreamer_study.pipeline.settings import Count, FileName, checked, parse_file
from dreamer_study.pipeline.storage.integrity import read_sealed

HOW_IT_RUNS = ("micro_batch_tokens", "checkpointing", "compile", "save_every_seconds", "keep")
"""Fields of TrainingConfig that are no part of a run's identity.

They change its results by rounding at most.
"""

HOW_FAR = ("tokens", "checkpoints")
"""Fields of TrainingConfig that say how far a run is trained.

A run of more tokens takes the same steps first, unless its learning rate decays (`schedule`).
"""

LATER: dict[str, Any] = {
    "optimizer": ADAMW,
    "optimizer_config": {},
    "optimizer_files": {},
    "momentum": 0.95,
    "branches": 0.0,
}
"""Newer fields of TrainingConfig, with the value that all runs had before."""

NotNegative = Annotated[int, Field(ge=0, lt=2**63)]


def without_later(training: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out newer fields with their old value, so that older keys and states stay valid."""
    return {
        name: value for name, value in training.items() if name not in LATER or value != LATER[name]
    }


@checked("training")
class TrainingConfig:
    """The settings of one training, with the defaults of the paper (Table 3).

    Numbers of tokens do not count padding. `run.json` and the section `training` of a study file
    are both checked here. Raises InputError, which names the field, its value and the rule.
    """

    tokens: Count
    """Tokens of a training. It ends at the first optimiser step that has read this number."""
    batch_tokens: Count
    """Tokens of one optimiser step, padding included: a multiple of the packed sequence length."""
    seed: NotNegative = 0
    """Seed of the initialisation and of the data order."""
    learning_rate: Positive = 4e-4
    """Learning rate after warm-up."""
    warmup_steps: NotNegative = 500
    """Optimiser steps over which the learning rate rises from 0, in a straight line."""
    schedule: Schedule = "constant"
    """Learning rate after warm-up: constant, falling to 0 at `tokens`, or a decay near the end."""
    optimizer: Optimizer = ADAMW
    """The optimizer: adamw, muon, or your own class (file.py:Class)."""
    optimizer_config: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Arguments of your own optimizer class."""
    optimizer_files: dict[str, str] = dataclasses.field(default_factory=dict)
    """Digests of the files of your own optimizer, the file of its class first."""
    momentum: Decay = 0.95
    """Muon's momentum, with Nesterov's step."""
    beta1: Decay = 0.9
    """AdamW's decay of the mean gradient."""
    beta2: Decay = 0.999
    """AdamW's decay of the mean squared gradient."""
    epsilon: Positive = 1e-8
    """A small number that AdamW adds to the root of the mean squared gradient."""
    weight_decay: Finite = 1e-3
    """Share of each decayed weight that is subtracted at each step, times the learning rate."""
    clip: Positive | None = 0.5
    """Largest norm of the gradient; a larger gradient is scaled down to it. null: no bound."""
    averaging: Finite = 18.0
    """Power of the running average of the weights (weight_average.py); 0: no average is kept."""
    loss_on: Literal["all", "responses", "answers"] = "all"
    """Tokens that the loss counts: all tokens, tokens of responses, or tokens of final answers."""
    documents: Literal["apart", "joined"] = "apart"
    """Whether all models read a row as separate documents (apart) or as one text (joined)."""
    checkpoints: Annotated[tuple[NotNegative, ...], Field(strict=False)] = ()
    """Token counts at which a checkpoint is written; `tokens` is always added."""
    branches: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    """After each checkpoint, a decay of the rate to 0 over this share of the tokens so far, in a
    branch that is evaluated in place of the checkpoint; 0: none.
    """
    raw_checkpoints: bool = False
    """Checkpoints hold the raw weights beside their average."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of a training; auto: cuda where there is one, else cpu."""
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """Number format of matrix products; auto: bfloat16 on CUDA, else float32."""
    micro_batch_tokens: Count | None = None
    """Tokens in one forward and backward pass; null: the whole batch."""
    compile: bool | None = None
    """Use torch.compile, on CUDA only; null: where Triton is installed."""
    checkpointing: bool = False
    """Recompute the activations of each depth in the backward pass: less memory, more time."""
    save_every_seconds: Finite = 300.0
    """Seconds between two saved states, or 50 times the time of the last save if that is longer; 0:
    a state after every step.
    """
    keep: Count = 1
    """Number of saved states that stay on the disk. All checkpoints stay."""

    @model_validator(mode="after")
    def _fits(self) -> TrainingConfig:
        if max(self.checkpoints, default=0) > self.tokens:
            raise ValueError(
                f"checkpoints has {max(self.checkpoints)}, but it must be at most tokens"
                f" ({self.tokens})"
            )
        if self.branches:
            self._check_branches()
        if self.optimizer_config and self.optimizer in (ADAMW, MUON):
            raise ValueError(
                f"optimizer_config has arguments for your own class, but optimizer is"
                f" {self.optimizer!r}; leave out one of the two"
            )
        if self.batch_tokens % (self.micro_batch_tokens or 1):
            raise ValueError(
                f"micro_batch_tokens is {self.micro_batch_tokens}, but it must divide batch_tokens"
                f" ({self.batch_tokens})"
            )
        return self

    def _check_branches(self) -> None:
        """Raise ValueError where a branch could not decay."""
        if self.schedule != "constant":
            raise ValueError(
                f"branches is {self.branches:g}, but the schedule lets the learning rate decay"
                " already; set schedule to constant, or leave out branches"
            )
        first = min((*self.checkpoints, self.tokens))
        warm_up = self.warmup_steps * self.batch_tokens
        if first < warm_up:
            raise ValueError(
                f"branches: the checkpoint at {first:,} tokens lies within the warm-up"
                f" ({warm_up:,} tokens), where there is no rate to decay from; name later"
                " checkpoints, or fewer warmup_steps"
            )
        own = branch_tokens(self.branches, first)
        least = 2 * self.batch_tokens
        if own < least:
            raise ValueError(
                f"branches: the branch from the checkpoint at {first:,} tokens has {own:,} tokens,"
                f" less than two optimiser steps ({least:,} tokens); name later checkpoints, or a"
                " larger share"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values by field name, for JSON."""
        return {**dataclasses.asdict(self), "checkpoints": list(self.checkpoints)}


@dataclass(frozen=True)
class TrainingRun:
    """One training run: a folder with `run.json`, which names the packed data.

    A branch (branches.py) has the folder of its run in `branch_of`, and the tokens of the
    checkpoint that it starts from in `branched_at`.
    """

    folder: Path
    run_id: str
    variant: str
    model: Architecture
    training: TrainingConfig
    data: Path
    branch_of: Path | None = None
    branched_at: int = 0

    @property
    def home(self) -> Path:
        """The folder with run.json, the code and the progress; a branch has those of its run."""
        return self.branch_of or self.folder

    def settings(self) -> dict[str, Any]:
        """Return all settings of run.json that affect the trajectory of the training.

        The place of the data, how the run is computed and how far it is trained are left out.
        """
        left_out = {*HOW_IT_RUNS, *HOW_FAR}
        if isinstance(self.training.schedule, RateDecay):
            left_out.remove("tokens")  # by which the rate falls
        training = {
            name: value for name, value in self.training.to_dict().items() if name not in left_out
        }
        if training["documents"] == "apart":
            del training["documents"]  # states from before there was a choice stay good
        training = without_later(training)
        return {
            "run_id": self.run_id,
            "variant": self.variant,
            "model": self.model.to_dict(),
            "training": training,
        }


@checked("run.json")
class _RunFile:
    run_id: FileName
    model: dict[str, Any]
    training: dict[str, Any]
    data: str
    variant: str = ""
    # at which a study compares the model, part of the run's id; the model may have another
    depth: int | None = None
    seed: int | None = None
    seal: str | None = None


def read_run(folder: Path | str) -> TrainingRun:
    """Read the run described by `folder/run.json`.

    Raises InputError if the file is missing, damaged or wrong.
    """
    folder = Path(folder)
    try:
        file = parse_file(_RunFile, folder / "run.json")
    except FileNotFoundError as error:
        raise InputError(f"no run in {folder}: run.json is missing") from error
    if file.seal is not None:
        _check_seal(folder / "run.json")
    with placing(str(folder / "run.json")):
        training = {"seed": file.seed or 0, **file.training}
        if file.seed not in (None, training["seed"]):
            raise InputError(
                f"seed is {file.seed}, but training.seed is {training['seed']}; make them equal"
            )
        model = read_architecture(file.model)
        settings = TrainingConfig(**training)
    return TrainingRun(folder, file.run_id, file.variant, model, settings, data=folder / file.data)


def _check_seal(path: Path) -> None:
    """Raise InputError where a sealed run.json is not what a study has written."""
    try:
        read_sealed(path)
    except InputError:
        raise InputError(
            f"{path} is not what its study has written; `dreamer run STUDY` writes the file again;"
            " for a training of your own copy the folder, without state and checkpoints, and leave"
            " `seal` out"
        ) from None
