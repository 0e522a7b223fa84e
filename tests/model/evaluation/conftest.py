"""What tests of evaluation share."""

from pathlib import Path

import pytest

from dreamer_study.model.evaluation.language_model import LanguageModel, load_language_model
from tests.model.evaluation.evaluation_world import save_small_model, write_tokenizer


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer and a saved model that fit each other."""
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder / "tokenizer")
    save_small_model(folder / "checkpoint", sequence_length=192)
    return folder


@pytest.fixture(scope="package")
def text_model(folder: Path) -> LanguageModel:
    return load_language_model(folder / "checkpoint", folder / "tokenizer", "cpu")
