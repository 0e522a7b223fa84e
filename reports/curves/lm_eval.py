"""Read curves from a folder of result files that lm-eval's own command has written.

Samples beside the result files are the items. A result file of lm-eval, in the parts that are read:

    {"results": {"gsm8k": {"exact_match,flexible-extract": 0.31,
                           "exact_match_stderr,flexible-extract": 0.013}},
     "group_subtasks": {"mmlu": ["mmlu_math"]}, "n-samples": {"gsm8k": {"effective": 1319}}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.points import Curves, check_curves

FIELDS = {"variant": r"(?P<variant>[^/]+)", "seed": r"(?P<seed>\d+)", "tokens": r"(?P<tokens>\d+)"}
EXAMPLE = "'{variant}/seed{seed}/{tokens}'"


def read_lm_eval(folder: Path, pattern: str | None) -> Curves:
    """Read the files `results_*.json` below a folder.

    Of a task that a point has twice, the newest file counts. `pattern` begins the path of a result
    file below the folder and names its variant, tokens and (else 0) seed, for example
    `{variant}/seed{seed}/{tokens}`. A group of tasks stands for the tasks in it. Raises InputError
    for a pattern that does not fit, and where the files hold no curves.
    """
    if not pattern or not all(f"{{{name}}}" in pattern for name in ("variant", "tokens")):
        raise InputError(
            f"{folder}: a folder of lm-eval's results needs --pattern, such as {EXAMPLE}"
        )
    beginning = _beginning_of_path(pattern)
    points: dict[tuple, dict[str, Any]] = {}
    items: dict[tuple, list[dict[str, Any]]] = {}
    # Names have the time, so the newest file comes last.
    for file in sorted(folder.rglob("results_*.json"), key=lambda file: file.name):
        match = beginning.match(file.relative_to(folder).as_posix())
        if not match:
            raise InputError(f"{file}: --pattern {pattern!r} does not fit its path")
        point: dict[str, Any] = {"seed": 0}
        for name, text in match.groupdict().items():
            point[name] = text if name == "variant" else int(text)
        key = (point["variant"], point["seed"], point["tokens"])
        for row in _rows(file):
            points[(*key, row["task"], row["metric"], row["filter"])] = point | row
        for task, rows in _samples(file):
            items[(*key, task)] = [point | row for row in rows]
    if not points:
        raise InputError(f"{folder}: holds no file results_*.json with a value of a task")
    frame = pd.DataFrame(points.values()).sort_values(["variant", "seed", "tokens"], kind="stable")
    check_curves(frame, str(folder), lambda row: str(folder))
    samples = [row for rows in items.values() for row in rows]
    return Curves(frame, pd.DataFrame(samples) if samples else None)


def _beginning_of_path(pattern: str) -> re.Pattern[str]:
    """Return the expression of a pattern such as `{variant}/seed{seed}/{tokens}`."""
    parts = re.split(r"\{(variant|seed|tokens)\}", pattern)  # literal texts and names in turn
    expression = ""
    for place, part in enumerate(parts):
        is_name = place % 2 == 1
        expression += FIELDS[part] if is_name else re.escape(part)
    return re.compile(rf"{expression}(?![A-Za-z0-9])")


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for every metric of every task that is not part of a group."""
    try:
        report = json.loads(file.read_text())
        results = report["results"]
        groups = report.get("group_subtasks", {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: not a result file of lm-eval: {error!r}") from error
    parts = {part for subtasks in groups.values() for part in subtasks}
    for task, values in results.items():
        for key, value in values.items():
            metric, _, filter = key.partition(",")
            is_score = filter and not metric.endswith("_stderr")
            if task in parts or not is_score or not isinstance(value, int | float):
                continue
            error = values.get(f"{metric}_stderr,{filter}")
            yield {
                "task": task,
                "metric": metric,
                "filter": filter,
                "value": float(value),
                "stderr": float(error) if isinstance(error, int | float) else None,
                "items": report.get("n-samples", {}).get(task, {}).get("effective"),
            }


def _samples(file: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the scores of the items of each task whose samples stand beside a result file."""
    stamp = file.stem.removeprefix("results_")
    for samples in sorted(file.parent.glob(f"samples_*_{stamp}.jsonl")):
        task = samples.stem.removeprefix("samples_").removesuffix(f"_{stamp}")
        rows = []
        for number, line in enumerate(samples.read_text().splitlines(), 1):
            try:
                sample = json.loads(line)
                item = str(sample["doc_id"])
                values = {name: sample[name] for name in sample.get("metrics", ())}
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{samples}, line {number}: not a sample of lm-eval: {error!r}"
                ) from error
            key = {"task": task, "filter": sample.get("filter", "none"), "item_id": item}
            for metric, value in values.items():
                if isinstance(value, int | float):
                    rows.append({**key, "metric": metric, "value": float(value)})
        yield task, rows
