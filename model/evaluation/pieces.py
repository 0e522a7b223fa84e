"""One checkpoint's evaluation, piece by piece, so that a kill loses the piece in hand and no more.

A piece is what one benchmark asks (all tasks of a benchmark together, so that batches stay full; tasks of different
benchmarks are answered in different ways and would hardly share one), the same at another depth, or what is observed
of the model's attention. Each is written to `<checkpoint>.pieces/` when it is done; with the last one they are put
together under the checkpoint's final name, so that its rows appear at once. A checkpoint that is begun again takes
the pieces that are there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from model.checkpoint import written_whole
from model.evaluation.job import Checkpoint
from model.evaluation.measures import COLUMNS, Scored, depth_rows, schema, tables
from model.evaluation.text import TextModel
from model.introspect import Sample, observe

if TYPE_CHECKING:
    import pyarrow as pa

    Rows = Mapping[str, pa.Table]  # by table

PIECES = ".pieces"

# What the tasks ask, by lm-eval's names for it, and who answers.
ANSWERS: dict[str, Callable[[TextModel, list[Any]], list[Any]]] = {
    "loglikelihood": TextModel.log_likelihoods,
    "loglikelihood_rolling": TextModel.rolling_log_likelihoods,
    "generate_until": TextModel.write,
}


class Task(Protocol):
    """What `HarnessTask` and `PlainTask` have in common."""

    @property
    def specification(self) -> Mapping[str, Any]: ...

    @property
    def items(self) -> int: ...

    @property
    def requests(self) -> dict[str, list[Any]]: ...

    def score(self, answers: Mapping[str, Sequence[Any]]) -> Scored: ...


@dataclass(frozen=True)
class Piece:
    """A part of a checkpoint's evaluation: the requests it asks, the items they belong to, and how its rows come
    about."""

    requests: int
    items: int
    rows: Callable[[], Rows]


def ask(model: TextModel, tasks: Sequence[Task]) -> list[Scored]:
    """All tasks' scores of one model. Requests of one kind are answered together, whatever task they come from."""
    asked = [task.requests for task in tasks]
    answers: list[dict[str, Sequence[Any]]] = [{} for _ in tasks]
    for kind, answer in ANSWERS.items():
        found = iter(answer(model, [request for requests in asked for request in requests.get(kind, ())]))
        for requests, own in zip(asked, answers, strict=True):
            own[kind] = [next(found) for _ in requests.get(kind, ())]
    return [task.score(own) for task, own in zip(tasks, answers, strict=True)]


def pieces(
    checkpoint: Checkpoint, model: TextModel, tasks: Sequence[Task], sample: Sample | None, depths: Sequence[int]
) -> list[Piece]:
    """All of a checkpoint's evaluation: what is observed on `sample`, every benchmark, and those at other depths."""
    benchmarks: dict[str, list[Task]] = {}
    for task in tasks:
        benchmarks.setdefault(task.specification["benchmark"], []).append(task)
    found = [] if sample is None else [Piece(0, 0, partial(_observed, checkpoint, model, sample))]
    for depth in (None, *depths):
        for own in benchmarks.values():
            requests = sum(len(asked) for task in own for asked in task.requests.values())
            rows = partial(_answered, checkpoint, model, own, depth, compared=bool(depths))
            found.append(Piece(requests, sum(task.items for task in own), rows))
    return found


def _answered(
    checkpoint: Checkpoint, model: TextModel, tasks: Sequence[Task], depth: int | None, *, compared: bool
) -> Rows:
    """A benchmark's rows. At the model's own depth also those for the comparison with other depths, if there is one."""
    model.depth = depth
    try:
        rows = tables(checkpoint.run_id, checkpoint.tokens, ask(model, tasks))
    finally:
        model.depth = None
    other = {"depth_evaluations": depth_rows(rows["evaluations"], depth or model.model.config.depth)}
    return other if depth else {**rows, **other} if compared else rows


def _observed(checkpoint: Checkpoint, model: TextModel, sample: Sample) -> Rows:
    """Rows of `depth_attention` (none without depth attention) and `expert_usage`."""
    import pyarrow as pa

    seen = observe(model.model, sample)
    found = {"depth_attention": seen.depth_attention_rows(), "expert_usage": seen.expert_usage_rows()}
    return {
        name: pa.table(
            {
                "run_id": [checkpoint.run_id] * len(next(iter(columns.values()))),
                "tokens": [checkpoint.tokens] * len(next(iter(columns.values()))),
                **columns,
            },
            schema=schema(*COLUMNS[name]),
        )
        for name, columns in found.items()
    }


def finished_pieces(folder: Path, parts: Sequence[Piece], begun: Callable[[Piece, bool], object]) -> Iterator[Rows]:
    """Do what is not there yet of a checkpoint whose rows belong into `folder`, and yield the rows of every piece.

    `begun(piece, there)` is told of each piece before it is done, and whether it was there.
    """
    place = folder.with_name(folder.name + PIECES)
    for number, piece in enumerate(parts):
        there = place / f"{number:03d}"
        begun(piece, there.exists())
        if not there.exists():
            _write(there, piece.rows())
        yield _read(there)


def put_together(folder: Path, found: Sequence[Rows]) -> Rows:
    """Write the rows of all pieces under the checkpoint's final name, `folder/rows/`; returns them by table."""
    import pyarrow as pa

    names = dict.fromkeys(name for rows in found for name in rows)
    whole = {name: pa.concat_tables([rows[name] for rows in found if name in rows]) for name in names}
    with written_whole(folder) as unfinished:
        _write(unfinished / "rows", whole)
    remove_pieces(folder)
    return whole


def remove_pieces(folder: Path) -> None:
    """Remove the pieces of a checkpoint that is complete."""
    shutil.rmtree(folder.with_name(folder.name + PIECES), ignore_errors=True)


def _write(folder: Path, rows: Rows) -> None:
    import pyarrow.parquet as pq

    with written_whole(folder) as unfinished:
        for name, table in rows.items():
            pq.write_table(table, unfinished / f"{name}.parquet", compression="zstd")


def _read(folder: Path) -> Rows:
    import pyarrow.parquet as pq

    return {path.stem: pq.read_table(path) for path in sorted(folder.iterdir())}
