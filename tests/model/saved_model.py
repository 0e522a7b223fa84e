"""Save a model as training saves a checkpoint."""

from pathlib import Path
from typing import Any

from model.checkpoint import save_weights
from model.dreamer import Dreamer


def save_model(folder: Path, model: Dreamer, *content: Any, **options: Any) -> None:
    """Save the configuration and the weights of a model in a new folder."""
    save_weights(folder, model.config, model.state_dict(), *content, **options)
