"""Read a result file of lm-eval of any age, and the samples beside it.

Since 0.4 a metric has a filter, and a group stands for the tasks in it:

    {"results": {"gsm8k": {"exact_match,flexible-extract": 0.31,
                           "exact_match_stderr,flexible-extract": 0.013}},
     "group_subtasks": {"mmlu": ["mmlu_math"]}, "n-samples": {"gsm8k": {"effective": 1319}}}

Before, `{"results": {"gsm8k": {"acc": 0.31, "acc_stderr": 0.013}}, "versions": {"gsm8k": 0}}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.scores import (
    Report,
    Score,
    count_or_none,
    kind_of_metric,
    number_or_none,
)

ERROR = "_stderr"


def read_report(file: Path, content: Mapping[str, Any]) -> Report | None:
    """Read a file; None where it is none of lm-eval's."""
    results = content.get("results")
    if not isinstance(results, Mapping):
        return None
    groups = _mapping(content.get("group_subtasks"))
    scores = {task: [*_scores(task, values, content)] for task, values in results.items()}
    # A group without a value of its own stands for nothing: its tasks count.
    grouped = [tasks for group, tasks in groups.items() if scores.get(group)]
    parts = {part for tasks in grouped if isinstance(tasks, list) for part in tasks}
    kept = [score for task, found in scores.items() if task not in parts for score in found]
    return Report(file, _model(content), {}, kept)


def samples_of(file: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the scores of the items of each task whose samples stand beside a result file."""
    stamp = file.stem.removeprefix("results_")
    for samples in sorted(file.parent.glob(f"samples_*_{stamp}.jsonl")):
        task = samples.stem.removeprefix("samples_").removesuffix(f"_{stamp}")
        # Only "\n" ends a line: texts of items may hold other ends of lines, such as U+2028.
        lines = samples.read_text().split("\n")
        rows = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                sample = json.loads(line)
                item = str(sample["doc_id"])
                values = {name: sample[name] for name in sample.get("metrics", ())}
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise InputError(
                    f"{samples}, line {number}: not a sample of lm-eval: {error!r}"
                ) from error
            key = {"task": task, "filter": sample.get("filter", "none"), "item_id": item}
            for metric, value in values.items():
                if isinstance(value, int | float):
                    rows.append({**key, "metric": metric, "value": float(value)})
        yield task, rows


def _mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping; an empty one in the place of anything else."""
    return value if isinstance(value, Mapping) else {}


def _scores(task: str, values: object, content: Mapping[str, Any]) -> Iterator[Score]:
    """Yield a score for every metric and filter of a task."""
    if not isinstance(values, Mapping):
        return
    counts = _mapping(_mapping(content.get("n-samples")).get(task))
    for key, value in values.items():
        metric, comma, filter = key.partition(",")
        number = number_or_none(value)
        if number is None or metric.endswith(ERROR):
            continue
        if not comma and kind_of_metric(metric) is None and f"{metric}{ERROR}" not in values:
            continue  # no metric: sample_len
        error = values.get(f"{metric}{ERROR}{comma}{filter}")
        yield Score(
            task=task,
            metric=metric,
            filter=filter or "none",
            value=number,
            stderr=number_or_none(error),
            items=count_or_none(counts.get("effective")),
            kind=kind_of_metric(metric),
        )


def _model(content: Mapping[str, Any]) -> str:
    """Name the model and its revision: `org/model, revision step1000`."""
    config = _mapping(content.get("config"))
    arguments = config.get("model_args") or ""
    if isinstance(arguments, str):
        pairs = [part.partition("=") for part in arguments.split(",")]
        arguments = {name.strip(): value.strip() for name, _, value in pairs}
    arguments = _mapping(arguments)
    name = content.get("model_name") or arguments.get("pretrained") or ""
    revision = arguments.get("revision")
    return f"{name}, revision {revision}" if revision else str(name)
