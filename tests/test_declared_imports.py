"""Every third-party package that the product imports is declared in pyproject.toml, and every
declared one is imported."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.one_name import FOLDERS, NAME

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
EXTRAS = (
    "cluster",
    "completion",
    "tensorboard",
    "tracking",
    "transformers",
)  # the others serve no module
NOT_IMPORTED = {  # declared for another reason than an import
    "antlr4-python3-runtime": "of lm-eval's tasks of MATH",
    "cryptography": "makes the keys of a local Dask cluster",
    "math-verify": "of lm-eval's tasks of MATH",
    "sympy": "of lm-eval's tasks of MATH",
    "fastapi": "bounds the version of Prefect's server, which does not start with newer ones",
}


def distribution(requirement: str) -> str:
    """Return the normalised name of a requirement: "lm-eval[math]>=0.4" is lm-eval's."""
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def imported_modules(source: str) -> Iterator[str]:
    """Yield the top-level names that a Python source imports, at its top or later."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def imported() -> dict[str, str]:
    """Map each distribution that the product imports to one module that imports it."""
    distributions = packages_distributions()
    not_third_party = {*sys.stdlib_module_names, NAME}
    modules: dict[str, str] = {}
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        names = set(imported_modules(path.read_text(encoding="utf-8")))
        for name in names - not_third_party:
            for owner in distributions.get(name, [name]):
                modules.setdefault(distribution(owner), str(path.relative_to(ROOT)))
    return modules


def declared() -> set[str]:
    """Return the distributions that the product and its extras require."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in EXTRAS:
        requirements += project["optional-dependencies"][extra]
    return {distribution(requirement) for requirement in requirements}


def test_what_is_imported_is_declared() -> None:
    undeclared = imported().keys() - declared()
    assert {name: imported()[name] for name in undeclared} == {}


def test_what_is_declared_is_imported_or_has_a_reason() -> None:
    assert declared() - imported().keys() == NOT_IMPORTED.keys()
