"""Read curves from a folder of result files that lm-eval's own command has written, with the
samples beside them."""

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
    """Read the files `results_*.json` below a folder; of a task that a place has twice, the newest
    file counts.

    `pattern` begins the path of a result file below the folder and names its variant, tokens and
    (else 0) seed, for example `{variant}/seed{seed}/{tokens}`. A group of tasks stands for the
    tasks in it. Raises InputError for a pattern that does not fit, and where the files hold no
    curves.
    """
    if not pattern or not all(f"{{{name}}}" in pattern for name in ("variant", "tokens")):
        raise InputError(
            f"{folder}: a folder of lm-eval's results needs --pattern, such as {EXAMPLE}"
        )
    parts = re.split(r"\{(variant|seed|tokens)\}", pattern)
    expression = "".join(FIELDS[part] if i % 2 else re.escape(part) for i, part in enumerate(parts))
    place = re.compile(rf"{expression}(?![A-Za-z0-9])")
    points, items = dict[tuple, dict[str, Any]](), dict[tuple, list[dict[str, Any]]]()
    for file in sorted(folder.rglob("results_*.json"), key=lambda file: file.name):
        found = place.match(file.relative_to(folder).as_posix())
        if not found:
            raise InputError(f"{file}: --pattern {pattern!r} does not fit its path")
        at = {"seed": 0} | {
            name: text if name == "variant" else int(text)
            for name, text in found.groupdict().items()
        }
        for row in _rows(file):
            points[(*at.values(), row["task"], row["metric"], row["filter"])] = at | row
        for task, rows in _samples(file):
            items[(*at.values(), task)] = [at | row for row in rows]
    if not points:
        raise InputError(f"{folder}: holds no file results_*.json with a value of a task")
    frame = pd.DataFrame(points.values()).sort_values(["variant", "seed", "tokens"], kind="stable")
    check_curves(frame, str(folder), lambda row: str(folder))
    samples = [row for rows in items.values() for row in rows]
    return Curves(frame, pd.DataFrame(samples) if samples else None)


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for every metric of every task that is not part of a group."""
    try:
        report = json.loads(file.read_text())
        results, groups = report["results"], report.get("group_subtasks", {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: not a result file of lm-eval: {error!r}") from error
    parts = {part for subtasks in groups.values() for part in subtasks}
    for task, values in results.items():
        for key, value in values.items():
            metric, _, filter = key.partition(",")
            if (
                task in parts
                or metric.endswith("_stderr")
                or not filter
                or not isinstance(value, int | float)
            ):
                continue
            error = values.get(f"{metric}_stderr,{filter}")
            yield {
                **{"task": task, "metric": metric, "filter": filter, "value": float(value)},
                "stderr": float(error) if isinstance(error, int | float) else None,
                "items": report.get("n-samples", {}).get(task, {}).get("effective"),
            }


def _samples(file: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the scores of the items of each task whose samples stand beside a result file."""
    stamp = file.stem.removeprefix("results_")
    for samples in sorted(file.parent.glob(f"samples_*_{stamp}.jsonl")):
        task, rows = samples.stem.removeprefix("samples_").removesuffix(f"_{stamp}"), []
        for number, line in enumerate(samples.read_text().splitlines(), 1):
            try:
                sample = json.loads(line)
                item, metrics = (
                    str(sample["doc_id"]),
                    {name: sample[name] for name in sample.get("metrics", ())},
                )
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{samples}, line {number}: not a sample of lm-eval: {error!r}"
                ) from error
            place = {"task": task, "filter": sample.get("filter", "none"), "item_id": item}
            numbers = {
                name: value for name, value in metrics.items() if isinstance(value, int | float)
            }
            rows += [
                {**place, "metric": name, "value": float(value)} for name, value in numbers.items()
            ]
        yield task, rows
