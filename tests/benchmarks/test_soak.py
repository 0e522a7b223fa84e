"""The soak finds the processes that it kills."""

import pytest

from benchmarks.soak import VICTIMS
from flows.running.evaluators import MODULE


@pytest.mark.parametrize("module", [MODULE, "model.evaluate"])
def test_both_evaluating_processes_are_victims(module: str) -> None:
    assert VICTIMS["evaluator"] in f"python -m {module} "
