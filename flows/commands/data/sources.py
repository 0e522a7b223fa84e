"""`dreamer sources` and `dreamer download`: list the known data sets, and fetch them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pandas as pd

from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.flows.jobs.retries import resumable, retries_of, with_retries
from dreamer_study.flows.progress import reports
from dreamer_study.flows.study.configuration import Compute
from dreamer_study.flows.study.loading import load_study, presets
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.benchmarks.table import BENCHMARKS
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.repositories import folders
from dreamer_study.pipeline.sources.repositories.hub import resolve_commit
from dreamer_study.pipeline.sources.source import Source, notices
from dreamer_study.pipeline.sources.table import SOURCES, resolve_source


def sources(options: argparse.Namespace) -> None:
    """Print the training sources with licences and gates, and the benchmarks with their tasks.

    With --check print instead the commit of each on the hub. Raises InputError where the hub gives
    none of them.
    """
    if options.check is not None:
        _check(options.check)
        return
    rows = [
        {
            "source": name,
            "repository": source.repository,
            "split": f"{' '.join(source.configurations)}/{source.split}",
            "licence": source.licence,
            "access": "gated" if source.gated else "open",
        }
        for name, source in SOURCES.items()
    ]
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


def _check(names: Sequence[str]) -> None:
    """Ask the hub for the commits of sources and benchmarks.

    Prints a table, and lines that pin those without a revision.
    """
    named = [entry for name in names for entry in _entries(name)]
    if not named:
        named = [*SOURCES.values(), *BENCHMARKS.values()]
    of_hub = {(entry.name, entry.repository): entry for entry in named if entry.repository}
    entries = list(of_hub.values())
    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(_commit, entries))
    if not answers:
        raise InputError("nothing to check: no data set of the hub is named")
    if not any(commit for commit, _ in answers):
        _, first_problem = answers[0]
        raise InputError(first_problem)
    rows = [
        {
            "name": entry.name,
            "repository": entry.repository,
            "pinned": entry.revision or "-",
            "hub": commit or problem,
        }
        for entry, (commit, problem) in zip(entries, answers, strict=True)
    ]
    print_table(pd.DataFrame(rows))
    console.print()
    for entry, (commit, _) in zip(entries, answers, strict=True):
        if commit and not entry.revision:
            console.print(f"- {{name: {entry.name}, revision: {commit}}}")


def _commit(entry: Source | Benchmark) -> tuple[str, str]:
    """Return the commit of an entry on the hub, or "" and why there is none."""
    try:
        return resolve_commit(entry.repository, entry.revision), ""
    except InputError as error:
        return "", str(error)


def download(options: argparse.Namespace) -> None:
    """Fetch every named source or benchmark, or all that a study names, and print their folders.

    Raises InputError for an unknown name, or a repository that cannot be fetched.
    """
    entries = [entry for name in options.names for entry in _entries(name)]
    print_notices(entry for entry in entries if isinstance(entry, Source))
    with reports.listening(reports.Lines()):
        progress = partial(reports.report, "download")
        fetch = partial(folders.download, entries, options.mirror, progress=progress)
        retries = retries_of("download", Compute())
        repositories = with_retries(resumable(fetch), retries, reports.write_line)
    print(*repositories, sep="\n")


def print_notices(chosen: Iterable[Source]) -> None:
    """Print the notices of sources, which their users should read, on standard error."""
    for source in chosen:
        for notice in notices(source):
            reports.write_line(f"note: {notice}")


def _entries(name: str) -> list[Source | Benchmark]:
    """Resolve a name on the command line: a source, a benchmark (or both), or a study."""
    in_tables = [table[name] for table in (SOURCES, BENCHMARKS) if name in table]
    if in_tables:
        return in_tables
    is_study_file = Path(name).suffix in (".yaml", ".yml")
    if name in presets() or is_study_file or Path(name).is_dir():
        study = load_study(name)
        return [*study.own_sources, *study.own_benchmarks]
    return [resolve_source(name)]  # neither: the error names the nearest source
