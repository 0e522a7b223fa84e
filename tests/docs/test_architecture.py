"""docs/architecture.md names what is there: every file, and every function or class behind a colon."""

import importlib
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:pipeline|model|sql|reports|flows|tests)/[\w/.]*(?::\w+)?)`", PAGE)))


def test_the_page_names_files() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize("name", NAMED)
def test_what_the_page_names_is_there(name: str) -> None:
    path, _, attribute = name.partition(":")
    assert (PROJECT / path).exists()
    if attribute:
        module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        assert callable(getattr(module, attribute))
