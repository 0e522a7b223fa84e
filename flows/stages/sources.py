"""Find the files of a study's sources and benchmarks, and curate each source by itself: read, strip traces, clean."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from flows.running import progress
from flows.running.devices import cores
from flows.stages.building import build_stage
from flows.study.configuration import BUILTIN, Study
from pipeline.benchmarks.benchmark import Benchmark
from pipeline.benchmarks.table import resolve_benchmark
from pipeline.clean import CleanSettings, clean
from pipeline.sources.repositories import repository_folder, source_files
from pipeline.sources.source import Source
from pipeline.sources.stage import read_source
from pipeline.sources.table import resolve_source
from pipeline.storage.memory import memory_bytes
from pipeline.storage.parallel import workers
from pipeline.storage.store import Missing, Output, Store
from pipeline.traces.stage import strip_traces
from pipeline.worlds.world import WORLD_SOURCE

WORTH_PROCESSES = 100_000_000  # characters: below, starting processes takes longer than the work
PROCESS_MEMORY = 512 * 2**20  # bytes that one process of a data stage needs, whatever the size of the data


def processes_for(study: Study, size: int) -> int:
    """Count the processes for a stage that reads `size` characters: one, or the cores that `data.memory` allows."""
    room = int(memory_bytes(study.data.memory) // PROCESS_MEMORY)
    return max(1, min(cores(), room)) if size > WORTH_PROCESSES else 1


def locate_sources(study: Study, world: Output | None) -> list[tuple[Source, list[Path]]]:
    """Find the files of every source; of the built-in world only when it has been written.

    Raises InputError, within seconds, for a source that is neither in the mirror nor on the hub.
    """
    found = []
    for entry in study.data.sources:
        if entry == BUILTIN and world is None:
            continue
        source = resolve_source(WORLD_SOURCE if entry == BUILTIN else entry)
        mirror = world.path if entry == BUILTIN and world else study.data.mirror
        found.append((source, source_files(source, _locate(study, source, mirror, source.splits))))
    return found


def locate_benchmarks(study: Study) -> list[tuple[Benchmark, Path]]:
    """Find the repository folders of the study's benchmarks, without those of the built-in world.

    Raises InputError, within seconds, for a benchmark that is neither in the mirror nor on the hub.
    """
    benchmarks = [resolve_benchmark(entry) for entry in study.evaluation.benchmarks if entry != BUILTIN]
    return [(one, _locate(study, one, study.data.mirror, (one.split,))) for one in benchmarks]


def _locate(study: Study, entry: Source | Benchmark, mirror: Path | None, splits: tuple[str, ...]) -> Path:
    return repository_folder(
        entry.repository,
        mirror=mirror,
        cache=study.folder / "hub",
        revision=entry.revision,
        configurations=entry.configurations,
        splits=splits,
    )


def curate_sources(study: Study, store: Store, sources: list[tuple[Source, list[Path]]]) -> list[list[Output]]:
    """Curate every source, several at a time where that pays. Returns the three outputs of each source."""
    arguments = [
        (source, files, [store.file_digest(path) for path in files], study.data.limit, study.data.clean)
        for source, files in sources
    ]
    try:
        return [curate_source(Store(store.root, builds=False), *each) for each in arguments]
    except Missing:
        if not store.builds:
            raise
    size = sum(path.stat().st_size for _, files in sources for path in files) if study.data.limit is None else 0
    processes, done = min(processes_for(study, size), len(arguments)), []
    with workers(processes, study.data.cluster) as run:
        built = run(curate_source, [(store, *each) for each in arguments])
        for (source, _), outputs in zip(sources, built, strict=True):
            done.append(outputs)
            if processes > 1 or study.data.cluster:  # other processes cannot report here
                progress.report(f"clean {source.name}", 1.0, "done")
    return done


def curate_source(
    store: Store, source: Source, files: list[Path], digests: list[str], limit: int | None, rules: CleanSettings
) -> list[Output]:
    """Run the three stages that look at one document at a time. Returns the outputs `documents`, `traces`, `clean`."""
    build = partial(build_stage, store, label=source.name, resumes=True)
    read = build(
        "documents",
        {"source": source, "files": digests, "limit": limit},
        [],
        lambda folder, report: read_source(source, files, folder, limit=limit, progress=report),
    )
    stripped = build(
        "traces",
        {"marking": source.trace},
        [read],
        lambda folder, report: strip_traces(read.path, folder, marking=source.trace, progress=report),
    )
    cleaned = build(
        "clean", rules, [stripped], lambda folder, report: clean(stripped.path, folder, rules, progress=report)
    )
    return [read, stripped, cleaned]
