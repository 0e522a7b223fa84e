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


# Elements that have a text only.
DOCUMENT = """class Element {
  textContent = "";
  append(...parts) { this.textContent += parts.map((one) => one.textContent).join("; "); }
}
const document = { createElement: () => new Element() };"""


def value(expression: str) -> Any:
    """Evaluate an expression with the functions of the script."""
    program = f"{DOCUMENT}\n{SCRIPT.read_text()}\nconsole.log(JSON.stringify({expression}))"
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


def told(origin: dict[str, Any], run: dict[str, Any]) -> list[str]:
    """The texts of the panel, for a study with one run."""
    study = {"name": "s", "code": "1", "packages": {}, "runs": [run]}
    origin = {"study": 0, "query": "SELECT 1", "runs": [0], **origin}
    given = f"{json.dumps(origin)}, {json.dumps({'studies': [study]})}"
    return value(f"told({given}).map((element) => element.textContent)")


RUN = {"run": "a", "variant": "DR", "depth": 4, "seed": 0, "status": "complete", "checkpoints": []}


def test_a_note_stands_above_the_query() -> None:
    assert told({"note": "Over more items."}, RUN)[0] == "Over more items."
    assert told({}, RUN)[0].startswith("Query")


def test_numbers_of_no_run_have_no_heading_of_runs() -> None:
    assert "Runs (1)" in told({}, RUN)
    assert [text for text in told({"runs": []}, RUN) if "Runs" in text] == []


@pytest.mark.parametrize(
    ("depth", "said"), [(4, "a: DR, depth 4, seed 0, complete"), (None, "a: DR, seed 0, complete")]
)
def test_an_unknown_depth_is_left_out(depth: int | None, said: str) -> None:
    assert said in told({}, {**RUN, "depth": depth})
