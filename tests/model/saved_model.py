"""Save a model as training saves a checkpoint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from model.checkpoint import save_weights
from model.dreamer import Dreamer


def save_model(
    folder: Path, model: Dreamer, extra: Mapping[str, Any] | None = None, averaged: Mapping[str, Tensor] | None = None
) -> None:
    """Write the model's configuration and tensors to a new folder, by `save_weights`."""
    save_weights(folder, model.config, model.state_dict(), extra, averaged)
