"""Evaluate one checkpoint part by part, and resume after a kill: the part in hand and two seconds before it are lost.

A part is what one benchmark asks (its tasks together, so that batches stay full), the same at another depth or of the
raw weights, or what is observed of the model's attention. Finished parts are folders in `<checkpoint>.parts/`; after
the final one, their rows are concatenated under the checkpoint's final name, so that they appear at once.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from model.evaluation.job import PARTS, Checkpoint
from model.evaluation.language_model import LanguageModel
from model.evaluation.metrics import COLUMNS, TaskScores, depth_rows, raw_rows, schema, tables
from model.introspect import Sample, observe
from pipeline.storage.files import atomic_folder

# Less work than this is not worth files of its own: a small model answers a benchmark in the time that they take.
KEPT_SECONDS = 2.0

Rows = Mapping[str, pa.Table]  # by table


class Task(Protocol):
    """The interface that `HarnessTask` and `PlainTask` have in common."""

    @property
    def specification(self) -> Mapping[str, Any]: ...

    @property
    def items(self) -> int: ...

    @property
    def requests(self) -> dict[str, list[Any]]: ...

    def score(self, answers: Mapping[str, Sequence[Any]]) -> TaskScores: ...


@dataclass(frozen=True)
class Part:
    """A part of an evaluation: its numbers of requests and of items, and the function that computes its rows."""

    requests: int
    items: int
    rows: Callable[[], Rows]


def score_tasks(model: LanguageModel, tasks: Sequence[Task]) -> list[TaskScores]:
    """Score a model on tasks. Requests of one kind are batched together, whatever task they come from."""
    asked = [task.requests for task in tasks]
    together: dict[str, list[Any]] = defaultdict(list)
    for requests in asked:
        for kind, own in requests.items():
            together[kind] += own
    found = {kind: iter(answers) for kind, answers in model.answer(together).items()}
    return [
        task.score({kind: [next(found[kind]) for _ in own] for kind, own in requests.items()})
        for task, requests in zip(tasks, asked, strict=True)
    ]


def split_evaluation(
    checkpoint: Checkpoint,
    models: Sequence[LanguageModel],
    tasks: Sequence[Task],
    sample: Sample | None,
    depths: Sequence[int],
) -> list[Part]:
    """Split a checkpoint's evaluation: the observation on `sample`, every benchmark, every benchmark at each depth.

    With two models, the second has the raw weights of the first: every benchmark is asked of these at the end. Example:
    benchmarks a and b and depths [2] give the parts observation, a, b, a at depth 2, b at depth 2.
    """
    model, *raw = models
    benchmarks: dict[str, list[Task]] = {}
    for task in tasks:
        benchmarks.setdefault(task.specification["benchmark"], []).append(task)
    parts = [] if sample is None else [Part(0, 0, partial(_observe, checkpoint, model, sample))]
    ways = [partial(_score_benchmark, checkpoint, model, depth, compared=bool(depths)) for depth in (None, *depths)]
    ways += [partial(_score_raw, checkpoint, weights) for weights in raw]
    for score in ways:
        for own in benchmarks.values():
            requests = sum(len(asked) for task in own for asked in task.requests.values())
            parts.append(Part(requests, sum(task.items for task in own), partial(score, own)))
    return parts


def _score_benchmark(
    checkpoint: Checkpoint, model: LanguageModel, depth: int | None, tasks: Sequence[Task], *, compared: bool
) -> Rows:
    """Compute a benchmark's rows; at the model's own depth also rows to compare other depths with, where `compared`."""
    model.depth = depth
    try:
        rows = tables(checkpoint.run_id, checkpoint.tokens, score_tasks(model, tasks), model.weights)
    finally:
        model.depth = None
    other = {"depth_evaluations": depth_rows(rows["evaluations"], depth or model.model.config.depth)}
    return other if depth else {**rows, **other} if compared else rows


def _score_raw(checkpoint: Checkpoint, model: LanguageModel, tasks: Sequence[Task]) -> Rows:
    """Compute a benchmark's rows of `raw_evaluations`."""
    rows = tables(checkpoint.run_id, checkpoint.tokens, score_tasks(model, tasks))
    return {"raw_evaluations": raw_rows(rows["evaluations"])}


def _observe(checkpoint: Checkpoint, model: LanguageModel, sample: Sample) -> Rows:
    """Compute rows of `depth_attention` (none without depth attention) and `expert_usage`."""
    seen = observe(model.model, sample)
    found = {"depth_attention": seen.depth_attention_rows(), "expert_usage": seen.expert_usage_rows()}
    rows = {}
    for name, columns in found.items():
        count = len(next(iter(columns.values())))
        keys = {"run_id": [checkpoint.run_id] * count, "tokens": [checkpoint.tokens] * count}
        rows[name] = pa.table({**keys, **columns}, schema=schema(*COLUMNS[name]))
    return rows


def finish_parts(folder: Path, parts: Sequence[Part], begun: Callable[[Part, bool], object]) -> Iterator[Rows]:
    """Compute the missing parts of the checkpoint with final name `folder`, and yield the rows of every part.

    `begun(part, there)` is called before each part; `there` tells whether the part is finished already. Finished parts
    are written when those not yet written took KEPT_SECONDS together.
    """
    unwritten: dict[Path, Rows] = {}
    since = time.monotonic()
    for number, part in enumerate(parts):
        place = _parts_folder(folder) / f"{number:03d}"
        there = place.exists()
        begun(part, there)
        if there:
            yield _read(place)
            continue
        unwritten[place] = rows = part.rows()
        if time.monotonic() - since >= KEPT_SECONDS:
            for place, finished in unwritten.items():
                _write(place, finished)
            unwritten, since = {}, time.monotonic()
        yield rows


def concatenate(folder: Path, parts: Sequence[Rows]) -> Rows:
    """Write the rows of all parts to `folder/rows/`, remove the parts, and return the rows by table."""
    names = dict.fromkeys(name for rows in parts for name in rows)
    whole = {name: pa.concat_tables([rows[name] for rows in parts if name in rows]) for name in names}
    with atomic_folder(folder) as unfinished:
        _write(unfinished / "rows", whole)
    remove_parts(folder)
    return whole


def remove_parts(folder: Path) -> None:
    """Remove the parts of a checkpoint that is complete."""
    shutil.rmtree(_parts_folder(folder), ignore_errors=True)


def _parts_folder(folder: Path) -> Path:
    return folder.with_name(folder.name + PARTS)


def _write(folder: Path, rows: Rows) -> None:
    with atomic_folder(folder) as unfinished:
        for name, table in rows.items():
            pq.write_table(table, unfinished / f"{name}.parquet", compression="zstd")


def _read(folder: Path) -> Rows:
    return {path.stem: pq.read_table(path) for path in sorted(folder.iterdir())}
