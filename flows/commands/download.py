"""`dreamer download`: fill a mirror folder from the hub, to be carried to machines without a network."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from flows.running import progress
from flows.study.configuration import BUILTIN, load_study, presets
from pipeline.benchmarks.benchmark import Benchmark
from pipeline.benchmarks.table import BENCHMARKS, resolve_benchmark
from pipeline.sources.repositories import download
from pipeline.sources.source import Source, notices
from pipeline.sources.table import SOURCES, resolve_source


def download_all(names: Sequence[str], mirror: Path) -> list[Path]:
    """Fetch every named source or benchmark, or all that a study names; returns the repositories' folders.

    Raises InputError for a name that is none of these, or a repository that cannot be had.
    """
    entries: list[Source | Benchmark] = [entry for name in names for entry in _entries(name)]
    for entry in entries:
        for notice in notices(entry) if isinstance(entry, Source) else ():
            print(f"licence: {notice}", file=sys.stderr)
    return download(entries, mirror, progress=partial(progress.report, "download"))


def _entries(name: str) -> list[Source | Benchmark]:
    found: list[Source | Benchmark] = [table[name] for table in (SOURCES, BENCHMARKS) if name in table]
    if found:
        return found
    if name in presets() or Path(name).suffix in (".yaml", ".yml"):
        study = load_study(name)
        return [
            *(resolve_source(entry) for entry in study.data.sources if entry != BUILTIN),
            *(resolve_benchmark(entry) for entry in study.evaluation.benchmarks if entry != BUILTIN),
        ]
    return [resolve_source(name)]  # neither: the error names the nearest source
