"""Studies of rows of our own in a mirror: the data sets `owner/<name>`, with the columns `q` and `r`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flows.plan import Plan
from flows.prepare import prepare_data
from tests.flows.by_hand import at_once, tiny

BENCHMARK = {"name": "b", "repository": "owner/items", "task": "b", "metric": "acc", "question": "q", "split": "train"}


def write_rows(mirror: Path, name: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write a data set."""
    folder = mirror / "owner" / name / "default"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def entry(name: str, **fields: Any) -> dict[str, Any]:
    """The entry of a study's source."""
    return {"name": name, "repository": f"owner/{name}", "question": "q", "response": "r", **fields}


def prepared_of(mirror: Path, root: Path, *sources: dict[str, Any], cluster: str | None = None, **changes: Any) -> Plan:
    """Plan a study of sources, and of the benchmark `owner/items`; prepare its data. `changes` are those of `data`."""
    data = {"sources": list(sources), "mirror": str(mirror), "tokenizer": {"vocabulary_size": 300}, **changes}
    plan = Plan(tiny(root, data=data, evaluation={"benchmarks": [BENCHMARK]}, compute={"cluster": cluster}))
    prepare_data(plan, at_once)
    return plan
