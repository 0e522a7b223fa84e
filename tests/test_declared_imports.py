"""Every third-party package that the product imports is declared in pyproject.toml, and every
declared one imported."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = ("pipeline", "model", "flows", "sql", "reports")
EXTRAS = ("cluster", "tracking", "transformers")  # the others serve no module
NOT_IMPORTED = {  # declared for another reason than an import
    "fastapi": "bounds the version of Prefect's server, which does not start with newer ones",
}


def distribution(requirement: str) -> str:
    """Return the normalised name of a requirement: "lm-eval[math]>=0.4" is lm-eval's."""
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def imported() -> dict[str, str]:
    """Map the distributions that any module imports, at its top or later, to one module that
    does."""
    known = packages_distributions()
    found: dict[str, str] = {}
    for path in sorted(path for folder in OURS for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += (
                [node.module]
                if isinstance(node, ast.ImportFrom) and node.module and not node.level
                else []
            )
            for name in (
                {name.partition(".")[0] for name in names}
                - set(sys.stdlib_module_names)
                - {"dreamer_study"}
            ):
                for owner in known.get(name, [name]):
                    found.setdefault(distribution(owner), str(path.relative_to(ROOT)))
    return found


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    return {
        distribution(each)
        for each in [
            *project["dependencies"],
            *(one for extra in EXTRAS for one in optional[extra]),
        ]
    }


def test_what_is_imported_is_declared() -> None:
    assert {name: where for name, where in imported().items() if name not in declared()} == {}


def test_what_is_declared_is_imported_or_has_a_reason() -> None:
    assert declared() - imported().keys() == NOT_IMPORTED.keys()
