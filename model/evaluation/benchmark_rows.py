"""Split the evaluation of a checkpoint into parts, and write the rows of each benchmark.

A part is what one benchmark asks (its tasks together, so that batches stay full), the same at
another depth or of the raw weights, or what is observed of the model's attention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dreamer_study.model.evaluation.job import INTROSPECTION, EvaluatedCheckpoint
from dreamer_study.model.evaluation.language_model import LanguageModel
from dreamer_study.model.evaluation.metrics import COLUMNS, TaskScores, rows_beside, schema, tables
from dreamer_study.model.evaluation.observe import Sample, observe
from dreamer_study.pipeline.storage.files import atomic_folder
from dreamer_study.pipeline.storage.integrity import write_manifest

Rows = Mapping[str, pa.Table]  # by table
# an LmEvalTask or a HeldOutTask: `specification`, `requests` by kind, and `score(answers)`
Task = Any


@dataclass(frozen=True)
class EvaluationPart:
    """A part of an evaluation: its number of requests, and the function that computes its rows."""

    requests: int
    rows: Callable[[], Rows]


def score_tasks(model: LanguageModel, tasks: Sequence[Task]) -> list[TaskScores]:
    """Score a model on tasks.

    Requests of one kind are batched together, whatever task they come from.
    """
    asked = [task.requests for task in tasks]
    together: dict[str, list[Any]] = defaultdict(list)
    for requests in asked:
        for kind, own in requests.items():
            together[kind] += own
    answers = {kind: iter(of_kind) for kind, of_kind in model.answer(together).items()}
    scores: list[TaskScores] = []
    for task, requests in zip(tasks, asked, strict=True):
        # each task takes its own answers off the front, in the order of its requests
        own_answers = {
            kind: list(islice(answers[kind], len(own))) for kind, own in requests.items()
        }
        left_out = task.specification.get("left_out", ())
        scores.append(_without(left_out, task.score(own_answers)))
    return scores


def _without(items: Sequence[str], scores: TaskScores) -> TaskScores:
    """Leave items out of the scores of a task: those that stand in the training data.

    A late benchmark may have such items.
    """
    for measure in scores.measures:
        for item in items:
            measure.findings.pop(item, None)
    answers = {item: answer for item, answer in scores.answers.items() if item not in items}
    return replace(scores, answers=answers)


def split_evaluation(
    checkpoint: EvaluatedCheckpoint,
    models: Sequence[LanguageModel],
    tasks: Sequence[Task],
    sample: Sample | None,
    depths: Sequence[int],
) -> dict[str, list[EvaluationPart]]:
    """Split a checkpoint's evaluation by benchmark.

    A benchmark is asked at the model's own depth, then at each other depth, then of raw weights.
    What is observed on `sample` stands under INTROSPECTION. With two models, the second has the raw
    weights of the first. Example: benchmark a and depths [2] give {INTROSPECTION: [observation],
    "a": [a, a at depth 2]}.
    """
    model, *raw = models
    benchmarks: dict[str, list[Task]] = {}
    for task in tasks:
        benchmarks.setdefault(task.specification["benchmark"], []).append(task)
    ways = [
        partial(_score_benchmark, checkpoint, model, depth, compared=bool(depths))
        for depth in (None, *depths)
    ]
    ways += [partial(_score_raw, checkpoint, weights) for weights in raw]
    parts: dict[str, list[EvaluationPart]] = {}
    if sample is not None:
        observation = partial(_observe, checkpoint, model, sample)
        parts[INTROSPECTION] = [EvaluationPart(0, observation)]
    for name, own in benchmarks.items():
        requests = sum(len(asked) for task in own for asked in task.requests.values())
        parts[name] = [EvaluationPart(requests, partial(score, own)) for score in ways]
    return parts


def _score_benchmark(
    checkpoint: EvaluatedCheckpoint,
    model: LanguageModel,
    depth: int | None,
    tasks: Sequence[Task],
    *,
    compared: bool,
) -> Rows:
    """Compute a benchmark's rows at the model's own depth (None) or at another `depth`.

    Where depths are `compared`, the own depth has rows of `depth_evaluations` too, another depth
    only these.
    """
    model.depth = depth
    try:
        scores = score_tasks(model, tasks)
    finally:
        model.depth = None
    ties = sum(task.ties for task in scores)
    if ties:
        print(
            f"{checkpoint.run_id} {checkpoint.tokens:,}: {scores[0].benchmark}: {ties:,} items have"
            " two choices of nearly equal likelihood; another batch size may change the choice",
            flush=True,
        )
    rows = tables(checkpoint.run_id, checkpoint.tokens, scores, model.weights)
    if not checkpoint.answers or not len(rows["answers"]):
        del rows["answers"]
    if not compared:
        return rows
    computed_at = model.model.checked_depth(depth)
    by_depth = {"depth_evaluations": rows_beside(rows["evaluations"], computed_at)}
    return by_depth if depth else {**rows, **by_depth}


def _score_raw(
    checkpoint: EvaluatedCheckpoint, model: LanguageModel, tasks: Sequence[Task]
) -> Rows:
    """Compute a benchmark's rows of `raw_evaluations`."""
    rows = tables(checkpoint.run_id, checkpoint.tokens, score_tasks(model, tasks))
    return {"raw_evaluations": rows_beside(rows["evaluations"])}


def _observe(checkpoint: EvaluatedCheckpoint, model: LanguageModel, sample: Sample) -> Rows:
    """Compute rows of `depth_attention` and `expert_usage`; none of models that hide these."""
    if not model.model.observable:
        return {}
    rows = {}
    for name, columns in observe(model.model, sample).items():
        count = len(next(iter(columns.values())))
        keys = {"run_id": [checkpoint.run_id] * count, "tokens": [checkpoint.tokens] * count}
        rows[name] = pa.table({**keys, **columns}, schema=schema(*COLUMNS[name]))
    return rows


def join(parts: Sequence[Rows]) -> dict[str, pa.Table]:
    """Concatenate the rows of several parts, table by table."""
    names = dict.fromkeys(name for rows in parts for name in rows)
    return {
        name: pa.concat_tables([rows[name] for rows in parts if name in rows]) for name in names
    }


def write_rows(folder: Path, rows: Rows, configuration: Mapping[str, Any] | None) -> None:
    """Write rows as Parquet files to a new folder, with a manifest of what decided them."""
    with atomic_folder(folder) as unfinished:
        for name, table in rows.items():
            pq.write_table(table, unfinished / f"{name}.parquet", compression="zstd")
        write_manifest(
            unfinished, {"key": folder.name, "configuration": configuration, "inputs": []}
        )
