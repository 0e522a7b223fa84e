"""What the panel of a number says, without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NODE = shutil.which("node")
SCRIPT = Path(__file__).parents[3] / "reports" / "style" / "origins.js"

pytestmark = pytest.mark.skipif(
    not NODE, reason="no Node.js on this machine: install it to test the scripts of the page"
)


def value(expression: str) -> Any:
    """Evaluate an expression with the functions of the script."""
    program = f"{SCRIPT.read_text()}\nconsole.log(JSON.stringify({expression}))"
    return json.loads(subprocess.run([NODE, "-e", program], capture_output=True, check=True, text=True).stdout)


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        ("980", ", checkpoint at 1,000 tokens"),
        ("1400", ""),
        ("undefined", ", 2 checkpoints up to 1,000 tokens"),
    ],
)
def test_a_run_without_a_checkpoint_near_the_point_names_none(tokens: str, told: str) -> None:
    assert value(f"checkpointsOf({{ checkpoints: [500, 1000] }}, {tokens})") == told
