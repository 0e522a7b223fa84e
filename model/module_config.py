"""Describe a model that is no Dreamer: a user's class, or a type of the transformers library.

As JSON, in `run.json` and in `config.json` of a checkpoint:

    {"module": "my_models.py:GPT", "config": {"hidden_size": 64, "layers": 4},
     "files": {"my_models.py": "9f86d081884c7d65..."}, "vocabulary_size": 4096,
     "sequence_length": 512}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from dreamer_study.model.accounting import training_flops_per_token
from dreamer_study.model.dreamer_config import DreamerConfig, Size
from dreamer_study.pipeline.settings import checked

TRANSFORMERS = "transformers"  # stands for the file of a model of that library: transformers:llama


@checked("model")
class ModuleConfig:
    """A class, the arguments that build a model of it, and digests of its files of code.

    Raises InputError, naming field, value and rule.
    """

    # <file>:<class>, or transformers:<model type>
    module: str = Field(pattern=r"^[^:]+:\w[\w.-]*$")
    config: dict[str, Any] = Field(default_factory=dict)  # arguments of the class
    # digests by name, the file of the class first
    files: dict[str, str] = Field(default_factory=dict)
    vocabulary_size: Size
    sequence_length: Size  # of the rows of a training

    def to_dict(self) -> dict[str, Any]:
        """Return plain values by field name, for JSON."""
        return dataclasses.asdict(self)

    def other_depths(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """Return which of the wanted depths a trained model can run at besides its own: none."""
        return ()


Architecture = DreamerConfig | ModuleConfig
"""A model before it has weights: plain, checked values that say how to build one."""


def read_architecture(values: Mapping[str, Any]) -> Architecture:
    """Read a model's description from JSON values. Raises InputError where they describe none."""
    return ModuleConfig(**values) if "module" in values else DreamerConfig(**values)


def training_flops(config: Architecture, length: float, targets: float) -> float | None:
    """Count FLOPs per token of a training step; None where only a pass would tell."""
    if isinstance(config, DreamerConfig):
        return training_flops_per_token(config, length, targets)
    return None
