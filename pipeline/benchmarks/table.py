"""Read the paper's benchmarks from `table.yaml`, and resolve the benchmarks that a study names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.benchmarks.benchmark import PERPLEXITIES, Benchmark
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.entries import build, read_table, resolve

BENCHMARKS = read_table(Benchmark, Path(__file__).with_name("table.yaml"))

SHORT_KEYS = {  # what they say in place of `tasks`
    "task": "Task of lm-eval, or a list with one for each configuration; short for `tasks`.",
    "configuration": "Configuration of the data set that `task` evaluates.",
    "configurations": "Configurations of the data set that `task` evaluates.",
}


def resolve_benchmark(entry: str | Mapping[str, Any] | Benchmark) -> Benchmark:
    """Return the benchmark that a study's entry means.

    An entry is a name of the table, or a mapping of the fields of `Benchmark`. In a mapping, `task`
    with `configuration` (or a list as `configurations`; default "default") is short for `tasks`; a
    `text` needs no task. A mapping without `repository` whose name is in the table changes fields
    of that benchmark: it keeps the configurations, and the tasks of those that are named. A null
    stands for a field's default. Raises InputError, in one line, for unknown names and keys (naming
    the nearest valid one) and for values that do not fit.
    """
    if isinstance(entry, Benchmark):
        return entry
    base, values = resolve(Benchmark, BENCHMARKS, entry, SHORT_KEYS)
    if isinstance(entry, str):
        return build(Benchmark, base, values)
    where = f"benchmark {values['name']!r}"
    short = {key: entry[key] for key in SHORT_KEYS if entry.get(key) is not None}
    if short and "tasks" in values:
        raise InputError(f"{where}: give either tasks or {' and '.join(short)}")
    if short:
        values["tasks"] = _tasks(short, base.tasks if base else {}, values["name"], where)
    elif not base:
        values.setdefault("tasks", {"default": values["name"]})
    if values.get("text"):
        values["metric"] = values.get("metric") or PERPLEXITIES[0]
    benchmark = build(Benchmark, base, values)
    if not (benchmark.text or benchmark.yaml or base or "task" in short or entry.get("tasks")):
        raise InputError(
            f"{where}: name lm-eval's task (task, or a file as yaml), or a column as text for"
            " perplexity"
        )
    return benchmark


def _tasks(
    short: Mapping[str, Any], tasks: Mapping[str, str], name: str, where: str
) -> dict[str, str]:
    """Write the short keys as `tasks`, given those of the benchmark of the table."""
    usual = list(tasks) or "default"
    chosen = short.get("configurations", short.get("configuration", usual))
    if isinstance(chosen, str):
        chosen = [chosen]
    if not isinstance(chosen, list | tuple) or not all(isinstance(each, str) for each in chosen):
        raise InputError(
            f"{where}: configuration must be a text or a list of texts, not {chosen!r}"
        )
    if "task" in short:
        return {configuration: str(short["task"]) for configuration in chosen}
    # Of a benchmark with one task, every configuration has that; else it has to be said.
    for configuration in chosen:
        if len(tasks) > 1 and configuration not in tasks:
            raise InputError(f"{where}: name the task of {configuration!r}")
    first = next(iter(tasks.values()), name)
    return {configuration: str(tasks.get(configuration, first)) for configuration in chosen}
