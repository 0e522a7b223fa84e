"""docs/operations.md: every fault of the table names a test that is there, or says that it is not proved."""

import ast
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "operations.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.partition("## Faults")[2].splitlines() if line.startswith("| ")]
FAULTS = {cells[0]: cells[-1] for cells in ROWS[1:]}
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_the_page_has_a_table_of_faults() -> None:
    assert len(FAULTS) > 25


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_proved_by_a_test_or_is_said_not_to_be(fault: str) -> None:
    named = NAMED.findall(FAULTS[fault])
    assert named or FAULTS[fault].startswith("not proved")
    assert len(named) == FAULTS[fault].count("tests/")
    for path, name in named:
        tree = ast.parse((PROJECT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
