"""`dreamer sources` and `dreamer download`: list the known data sets, and fetch them into a mirror folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pandas as pd

from flows.commands.tables import console, print_table
from flows.study.configuration import BUILTIN
from flows.study.loading import load_study, presets
from flows.watching import progress
from pipeline.benchmarks.benchmark import Benchmark
from pipeline.benchmarks.table import BENCHMARKS, resolve_benchmark
from pipeline.sources.repositories import folders
from pipeline.sources.source import Source, notices
from pipeline.sources.table import SOURCES, resolve_source


def sources(options: argparse.Namespace) -> None:
    """Print the training sources with licences and gates, and the benchmarks with their lm-eval tasks."""
    rows = []
    for name, source in SOURCES.items():
        row = {
            "source": name,
            "repository": source.repository,
            "split": f"{' '.join(source.configurations)}/{source.split}",
            "licence": source.licence,
            "access": "gated" if source.gated else "open",
        }
        if options.long:
            columns = {"question": source.question, "response": source.response}
            row |= {"use": source.use, "revision": source.revision or "-", **columns}
        rows.append(row)
    print_table(pd.DataFrame(rows))
    console.print()
    tasks = [
        {
            "benchmark": name,
            "repository": benchmark.repository,
            "split": benchmark.split,
            "lm-eval tasks": " ".join(benchmark.tasks.values()),
            "accuracy": f"{benchmark.metric},{benchmark.filter}",
        }
        for name, benchmark in BENCHMARKS.items()
    ]
    print_table(pd.DataFrame(tasks))


def download(options: argparse.Namespace) -> None:
    """Fetch every named source or benchmark, or all that a study names; print the folders of their repositories.

    Raises InputError for an unknown name, or a repository that cannot be fetched.
    """
    entries = [entry for name in options.names for entry in _entries(name)]
    print_notices(entry for entry in entries if isinstance(entry, Source))
    with progress.on_terminal():
        found = folders.download(entries, options.mirror, progress=partial(progress.report, "download"))
    print(*found, sep="\n")


def print_notices(chosen: Iterable[Source]) -> None:
    """Print what a person should know of the sources before they are used, on standard error."""
    for source in chosen:
        for notice in notices(source):
            progress.write_line(f"note: {notice}")


def _entries(name: str) -> list[Source | Benchmark]:
    """Resolve a name on the command line: a source, a benchmark (or both), or a study."""
    found: list[Source | Benchmark] = [table[name] for table in (SOURCES, BENCHMARKS) if name in table]
    if found:
        return found
    if name in presets() or Path(name).suffix in (".yaml", ".yml"):
        study = load_study(name)
        benchmarks = [resolve_benchmark(entry) for entry in study.evaluation.benchmarks if entry != BUILTIN]
        return [*(resolve_source(entry) for entry in study.data.sources if entry != BUILTIN), *benchmarks]
    return [resolve_source(name)]  # neither: the error names the nearest source
