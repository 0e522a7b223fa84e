"""The smallest study that goes through every stage, for tests that run a whole one."""

from __future__ import annotations

from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parents[2]
TINY = PROJECT / "tests" / "studies" / "tiny.yaml"


def small_study(folder: Path, **training: object) -> Path:
    """A study file of one model and one seed."""
    content = yaml.safe_load(TINY.read_text())
    content["data"]["world"]["documents"] = 600
    content["models"]["variants"] = ["LA"]
    content["training"] |= {"seeds": [0], "tokens": 3000, "checkpoints": 1, **training}
    content["evaluation"] |= {"limit": 5, "bootstrap_replicates": 0, "introspect": False}
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(content))
    return path
