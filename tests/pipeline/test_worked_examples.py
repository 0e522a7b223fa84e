"""The worked examples in the docstrings give what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import pipeline

ROOT = Path(pipeline.__path__[0])
MODULES = [path.relative_to(ROOT) for path in sorted(ROOT.rglob("*.py")) if "\n>>> " in path.read_text()]


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_examples(path: Path) -> None:
    result = doctest.testmod(import_module(".".join(["pipeline", *path.with_suffix("").parts])))
    assert result.attempted
    assert not result.failed
