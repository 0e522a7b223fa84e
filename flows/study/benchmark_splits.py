"""Find the split that a benchmark's task file evaluates, for studies that name no split."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from dreamer_study.model.evaluation.lm_eval_files import find_task, read_task
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.errors import InputError


def evaluated_split(benchmark: Benchmark, place: Path) -> str:
    """Return the split that lm-eval would evaluate: the test split, or else the validation split.

    `place` is the folder of the study file. If the task file is missing or damaged, the benchmark
    keeps its own split; the evaluation reports the fault.
    """
    if benchmark.text:
        return benchmark.split
    named = {key: benchmark.overrides.get(key) for key in ("test_split", "validation_split")}
    if not named["test_split"]:
        with suppress(InputError, OSError):
            named = {**_splits(_file(benchmark, place)), **_given(named)}
    return str(named["test_split"] or named["validation_split"] or benchmark.split)


def _file(benchmark: Benchmark, place: Path) -> Path:
    if benchmark.yaml:
        return place / benchmark.yaml
    return find_task(next(iter(benchmark.tasks.values())))


def _splits(file: Path) -> dict[str, Any]:
    return dict(_splits_of_version(file, file.stat().st_mtime_ns))


@cache
def _splits_of_version(file: Path, modified: int) -> tuple[tuple[str, Any], ...]:
    """Read the splits that a task file names; nothing in the file is run."""
    definition = read_task(file, "task file", trust_code=True).definition
    return tuple((key, definition.get(key)) for key in ("test_split", "validation_split"))


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
