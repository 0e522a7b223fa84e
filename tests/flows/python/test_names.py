"""The public names of `import dreamer_study`, and that importing the package loads nothing."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

import dreamer_study
from tests.flows.small_study import PROJECT

# What a user's program may rely on: a name goes or changes only with a line in CHANGELOG.md.
PUBLIC = {
    "Comparison": ("verdict", "accuracies", "ratios", "losses", "notes"),
    "Estimate": ("study", "models", "data", "times", "resolution", "disk", "table", "needs"),
    "Failed": (),
    "InputError": (),
    "Note": ("text",),
    "Progress": ("work", "fraction", "detail"),
    "Results": (
        *("answer", "warnings", "factors", "curves", "checkpoints", "sql", "plot", "report"),
        *("path", "study_id", "notes"),
    ),
    "SizeComparison": ("ratios", "trends", "lines", "notes"),
    "Study": ("name", "study_id", "folder", "database", "report"),
    "TokenComparison": ("ratios", "leaks", "notes"),
    "atlas": ("world",),
    "compare": ("first", "second"),
    "compare_sizes": ("studies", "over"),
    "compare_tokens": ("studies", "despite_differences"),
    "factors": (
        *("curves", "items", "baseline", "target", "decayed_at_end", "every_pair"),
        *("tokens_per_step", "metric", "column", "pattern", "log"),
    ),
    "load": ("study", "root", "mirror"),
    "load_model": ("folder", "device", "weights", "tokenizer", "trust_code"),
    "plan": ("study", "root", "mirror", "gpus", "tflops", "measure", "price", "trust_code"),
    "results": ("study", "root", "study_id"),
    "run": (
        *("study", "root", "mirror", "until", "trust_code", "accept_code_change", "prefect"),
        "on_event",
    ),
}
PAGE = (PROJECT / "docs" / "python.md").read_text(encoding="utf-8")
LATER = ("torch", "pandas", "numpy", "duckdb", "altair", "prefect", "pydantic", "pyarrow")
IMPORT = """
import json, sys, time
before, began = set(sys.modules), time.process_time()
import dreamer_study
spent = time.process_time() - began
print(json.dumps([spent, sorted(set(sys.modules) - before)]))
"""


def test_the_public_names_are_these() -> None:
    assert dreamer_study.__all__ == sorted(PUBLIC)
    assert {*dreamer_study.__all__} <= {*dir(dreamer_study)}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_its_parts_and_its_documents(name: str) -> None:
    value = getattr(dreamer_study, name)
    parts = PUBLIC[name]
    if inspect.isfunction(value):
        assert tuple(inspect.signature(value).parameters) == parts
    elif is_dataclass(value):
        attributes = {*value.__dataclass_fields__, *vars(value)}
        assert {*parts} <= attributes
    else:
        assert {*parts} <= {*dir(value), *getattr(value, "model_fields", ())}
    assert inspect.getdoc(value), name
    assert re.search(rf"`(?:dreamer_study\.)?{name}[`(]", PAGE), name
    if inspect.isfunction(value):
        undocumented = [part for part in parts if part not in inspect.getdoc(value)]
        assert undocumented == []


def test_type_checkers_see_the_names_where_they_are() -> None:
    tree = ast.parse(Path(dreamer_study.__file__).read_text())
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
        if alias.name in PUBLIC
    }
    assert seen == {
        name: f"dreamer_study.{module}" for name, module in dreamer_study._MODULES.items()
    }
    for name, module in seen.items():
        assert getattr(import_module(module), name) is getattr(dreamer_study, name)
    assert (Path(dreamer_study.__file__).parent / "py.typed").exists()


def test_importing_the_package_loads_nothing() -> None:
    """The processes that train import the package too."""
    command = [sys.executable, "-c", IMPORT]
    seconds, loaded = json.loads(subprocess.check_output(command, text=True))
    assert [name for name in loaded if name.partition(".")[0] in LATER] == []
    assert [name for name in loaded if name.startswith("dreamer_study.")] == []
    assert seconds < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "light"), [("Progress", LATER[:6]), ("InputError", LATER), ("load", LATER[:1])]
)
def test_a_name_loads_what_it_needs(name: str, light: tuple[str, ...]) -> None:
    program = f"import sys, dreamer_study; dreamer_study.{name}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert [module for module in light if module in loaded] == []


def test_another_name_is_an_error_of_python() -> None:
    with pytest.raises(AttributeError, match="no attribute 'factor'"):
        dreamer_study.factor  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'factor'"):
        from dreamer_study import factor  # noqa: F401
