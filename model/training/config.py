"""Read and check `run.json`, the description of one training run, and the training settings inside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.architecture import DreamerConfig
from model.settings import check_fields, check_rules, field_types, is_file_name, read_object, required_fields
from pipeline.errors import InputError

HOW_IT_RUNS = (
    "micro_batch_tokens",
    "checkpointing",
    "compile",
    "log_every",
    "save_every_seconds",
    "keep",
    "spike_deviations",
    "spike_steps",
)
"""Fields of TrainingConfig that are no part of a run's identity: they change its results by rounding at most."""

HOW_FAR = ("tokens", "checkpoints")
"""Fields of TrainingConfig that say how far a run is trained: a run of more tokens goes through the same steps."""

RULES = (
    ("tokens batch_tokens log_every keep", lambda value: 1 <= value < 2**63, "must be at least 1 and below 2^63"),
    ("learning_rate epsilon clip", lambda value: 0 < value <= 1e300, "must be above 0, and finite"),
    ("seed warmup_steps", lambda value: 0 <= value < 2**63, "must not be negative, and below 2^63"),
    (
        "weight_decay averaging save_every_seconds spike_deviations",
        lambda value: 0 <= value <= 1e300,
        "must not be negative, and finite",
    ),
    ("beta1 beta2", lambda value: 0 <= value < 1, "must be at least 0 and below 1"),
    ("spike_steps", lambda value: 1 <= value <= 50, "must be between 1 and 50"),
    ("loss_on", ("all", "responses").__contains__, "must be 'all' or 'responses'"),
    ("device", ("auto", "cpu", "cuda").__contains__, "must be 'auto', 'cpu' or 'cuda'"),
    ("precision", ("auto", "bfloat16", "float32").__contains__, "must be 'auto', 'bfloat16' or 'float32'"),
)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The settings of one training; defaults are those of the paper (Table 3). Counts are of real tokens, no padding.

    The one definition of these settings: `run.json` and the section `training` of a study file are checked here.
    Raises InputError, naming field, value and rule.
    """

    tokens: int  # training stops at the first optimiser step at or above this count
    batch_tokens: int  # per optimiser step, padding included: a multiple of the packed sequence length
    seed: int = 0  # of initialisation and data order
    learning_rate: float = 4e-4
    warmup_steps: int = 500
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 1e-3
    clip: float = 0.5  # largest gradient norm
    averaging: float = 18.0  # power of the running average of the weights (averaging.py); 0: no average is kept
    loss_on: str = "all"  # or "responses"
    checkpoints: tuple[int, ...] = ()  # token counts; one at `tokens` is always taken
    raw_checkpoints: bool = False  # checkpoints hold the raw weights beside their average
    device: str = "auto"  # "cuda" where there is one, else "cpu"
    precision: str = "auto"  # of matrix products: "bfloat16" on CUDA, "float32" on a CPU
    micro_batch_tokens: int | None = None  # tokens in one forward and backward pass; None: the whole batch
    compile: bool | None = None  # torch.compile, on CUDA; None: where Triton is installed
    checkpointing: bool = False  # recompute the activations of each depth in the backward pass
    log_every: int = 1  # steps
    save_every_seconds: float = 300.0  # and at least 50 times what the last save took; 0: after every step
    keep: int = 1  # resume states that stay on the disk; checkpoints all stay
    spike_deviations: float = 20.0  # a loss so far above the running median is a spike (failures.py); 0: none is
    spike_steps: int = 50  # successive spikes that stop the run

    def __post_init__(self) -> None:
        object.__setattr__(self, "checkpoints", tuple(self.checkpoints))
        check_rules(
            self,
            "training",
            (
                *RULES,
                (
                    "checkpoints",
                    lambda points: all(0 <= point <= self.tokens for point in points),
                    f"must lie within 0 and tokens ({self.tokens})",
                ),
                (
                    "micro_batch_tokens",
                    lambda tokens: tokens is None or (tokens >= 1 and self.batch_tokens % tokens == 0),
                    f"must divide batch_tokens ({self.batch_tokens})",
                ),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values by field name, for JSON."""
        return {**dataclasses.asdict(self), "checkpoints": list(self.checkpoints)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """Build the settings from JSON values; missing fields take their defaults, unknown ones raise InputError."""
        check_fields(values, field_types(cls), "training", required_fields(cls))
        return cls(**values)


@dataclass(frozen=True)
class Run:
    """One training run: a folder with `run.json`, which names the packed data."""

    folder: Path
    run_id: str
    variant: str
    model: DreamerConfig
    training: TrainingConfig
    data: Path

    def settings(self) -> dict[str, Any]:
        """Return all of run.json that decides the trajectory; not where the data lie, how it is computed or how far."""
        left_out = (*HOW_IT_RUNS, *HOW_FAR)
        training = {name: value for name, value in self.training.to_dict().items() if name not in left_out}
        return {"run_id": self.run_id, "variant": self.variant, "model": self.model.to_dict(), "training": training}


_RUN_FIELDS = {
    "run_id": "str",
    "variant": "str",
    "depth": "int",  # at which a study compares the model, part of the run's id; the model may have another
    "seed": "int",
    "model": "dict",
    "training": "dict",
    "data": "str",
}


def read_run(folder: Path | str) -> Run:
    """Read the run described by `folder/run.json`. Raises InputError if the file is missing, damaged or wrong."""
    folder = Path(folder)
    path = folder / "run.json"
    try:
        values = read_object(path)
    except FileNotFoundError as error:
        raise InputError(f"no run in {folder}: run.json is missing") from error
    check_fields(values, _RUN_FIELDS, str(path), required=("run_id", "model", "training", "data"))
    if not is_file_name(values["run_id"]):
        raise InputError(f"{path}: run_id is {values['run_id']!r}, but it must be a name that a folder can have")
    training = dict(values["training"])
    seed = values.get("seed", training.get("seed", 0))
    if training.setdefault("seed", seed) != seed:
        raise InputError(f"{path}: seed is {seed}, but training.seed is {training['seed']}; make them equal")
    try:
        model, settings = DreamerConfig.from_dict(values["model"]), TrainingConfig.from_dict(training)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return Run(
        folder=folder,
        run_id=values["run_id"],
        variant=values.get("variant", ""),
        model=model,
        training=settings,
        data=folder / values["data"],
    )
