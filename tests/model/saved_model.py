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
    """Save the configuration and the weights of a model in a new folder."""
    save_weights(folder, model.config, model.state_dict(), extra, averaged)
