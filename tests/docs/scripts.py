"""Import the scripts of docs/results, which are in no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def script(name: str) -> ModuleType:
    """Import a script of docs/results by its path there, as `atlas/page.py`."""
    module_name = f"results_{name.removesuffix('.py').replace('/', '_')}"
    described = importlib.util.spec_from_file_location(module_name, RESULTS / name)
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    sys.modules[module_name] = module  # where dataclasses look for it
    described.loader.exec_module(module)
    return module
