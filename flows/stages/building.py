"""Build one data stage through the store: its version, its key and its progress."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flows.running import progress
from pipeline.progress import Progress
from pipeline.storage.store import Output, Store

# A stage's version goes up whenever its code changes what it writes: old outputs are then not used again.
VERSIONS = {
    "world": 1,
    "documents": 3,
    "traces": 4,
    "clean": 2,
    "signatures": 1,  # with this version goes up the one of deduplicate, whose key does not name the signatures
    "deduplicate": 4,
    "decontaminate": 5,
    "items": 2,
    "tokenizer": 1,
    "tokens": 4,
    "funnel": 3,
}


def build_stage(
    store: Store,
    stage: str,
    configuration: Any,
    inputs: Sequence[Output],
    work: Callable[[Path, Progress], Mapping[str, Any]],
    *,
    label: str = "",
    resumes: bool = False,
) -> Output:
    """Find the output of a stage in the store, or build it by `work(folder, report)`, and report its progress.

    `configuration` is a settings dataclass or plain values. With `resumes`, `work` continues in the folder that a
    killed attempt left behind. Raises what `Store.build` raises.
    """
    report = partial(progress.report, f"{stage} {label}".strip())
    shape = plain(configuration)
    output = store.build(stage, VERSIONS[stage], shape, inputs, lambda folder: work(folder, report), resumes=resumes)
    report(1.0, "done")
    return output


def plain(value: Any) -> Any:
    """Reduce a value to what JSON knows: dataclasses become mappings, tuples and sets lists, paths text."""

    def reduce(other: Any) -> Any:
        if dataclasses.is_dataclass(other):
            return dataclasses.asdict(other)
        return list(other) if isinstance(other, set | frozenset) else str(other)

    return json.loads(json.dumps(value, default=reduce))
