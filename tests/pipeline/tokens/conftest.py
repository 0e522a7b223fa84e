"""Documents on disk and a tokenizer trained on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dreamer_study.pipeline.tokens.tokenizer import read_tokenizer, train_tokenizer
from tests.pipeline.tokens.token_documents import DOCUMENTS, write


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("documents"), DOCUMENTS)


@pytest.fixture(scope="module")
def tokenizer(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(documents, folder, 400)
    return folder


@pytest.fixture(scope="module")
def codec(tokenizer: Path):
    return read_tokenizer(tokenizer)
