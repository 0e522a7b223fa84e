"""Find the files of sources and benchmarks, and curate each source by itself: read, strip traces, clean, sign."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flows.running import progress
from flows.running.machines.devices import cores
from flows.stages.building import build_stage, plain
from flows.stages.losses import check_kept, say, unmarked_warnings, warnings
from flows.study.configuration import BUILTIN, Study
from pipeline.benchmarks.benchmark import Benchmark
from pipeline.benchmarks.table import resolve_benchmark
from pipeline.clean import CleanSettings, clean
from pipeline.dedup.signing import sign_source
from pipeline.errors import InputError
from pipeline.sources.repositories.folders import (
    Absent,
    find_folder,
    repository_folder,
    resolved_revision,
    source_files,
)
from pipeline.sources.source import Source
from pipeline.sources.stage import read_source
from pipeline.sources.table import resolve_source
from pipeline.storage.documents import KEPT
from pipeline.storage.memory import memory_bytes
from pipeline.storage.parallel import Run, at_once, serial, workers
from pipeline.storage.store import Missing, Output, Store
from pipeline.traces.stage import strip_traces
from pipeline.worlds.world import WORLD_SOURCE

WORTH_PROCESSES = 100_000_000  # characters: below, starting processes takes longer than the work
LIMITED_ROW = 8_000  # characters that a row is taken to have where only some rows are read
PROCESS_MEMORY = 512 * 2**20  # bytes that one process of a data stage needs, whatever the size of the data


def processes_for(study: Study, size: int) -> int:
    """Count the processes for a stage that reads `size` characters: one, or the cores that `data.memory` allows."""
    room = int(memory_bytes(study.data.memory) // PROCESS_MEMORY)
    return max(1, min(cores(), room)) if size > WORTH_PROCESSES else 1


@dataclass(frozen=True)
class Located:
    """A source with its files, and the commit of its repository that they are of; None where nobody recorded one."""

    source: Source
    files: tuple[Path, ...]
    commit: str | None = None


def locate_sources(study: Study, world: Output | None) -> list[Located]:
    """Find the files of every source; of the built-in world only when it has been written.

    Raises InputError, within seconds, for a source that is neither in the mirror nor on the hub.
    """
    found = []
    for entry in study.data.sources:
        if entry == BUILTIN and world is None:
            continue
        source = resolve_source(WORLD_SOURCE if entry == BUILTIN else entry)
        folder = _locate(study, source, world.path if entry == BUILTIN and world else study.data.mirror, source.splits)
        found.append(Located(source, tuple(source_files(source, folder)), resolved_revision(folder)))
    return found


def locate_benchmarks(study: Study) -> list[tuple[Benchmark, Path]]:
    """Find the repository folders of the study's benchmarks, without those of the built-in world.

    Raises InputError, within seconds, for a benchmark that is neither in the mirror nor on the hub.
    """
    benchmarks = [resolve_benchmark(entry) for entry in study.evaluation.benchmarks if entry != BUILTIN]
    return [(one, _locate(study, one, study.data.mirror, (one.split,))) for one in benchmarks]


def _locate(study: Study, entry: Source | Benchmark, mirror: Path | None, splits: tuple[str, ...]) -> Path:
    try:
        return repository_folder(
            entry.repository,
            mirror=mirror,
            cache=study.folder / "hub",
            revision=entry.revision,
            configurations=entry.configurations,
            splits=splits,
            study=shlex.quote(shlex.split(study.arguments)[0]),
            progress=partial(progress.report, f"download {entry.name}"),
        )
    except Absent as error:
        raise InputError(f"{error}{_also_not_here(study, entry)}") from error


def _also_not_here(study: Study, first: Source | Benchmark) -> str:
    """Name the other data sets of a study that are not on this machine, to be fetched together; "" for none."""
    sources = [resolve_source(entry) for entry in study.data.sources if entry != BUILTIN]
    benchmarks = [resolve_benchmark(entry) for entry in study.evaluation.benchmarks if entry != BUILTIN]
    missing = []
    for one, splits in [*((each, each.splits) for each in sources), *((each, (each.split,)) for each in benchmarks)]:
        parts = [(configuration, split) for configuration in one.configurations for split in splits]
        cache = study.folder / "hub"
        with suppress(InputError):  # in the mirror at another commit: not here either
            if find_folder(one.repository, parts, mirror=study.data.mirror, cache=cache, revision=one.revision):
                continue
        missing.append(one.name)
    others = [name for name in dict.fromkeys(missing) if name != first.name]
    return f"; also not here: {', '.join(others)}" if others else ""


def curate_sources(study: Study, store: Store, sources: Sequence[Located]) -> list[list[Output]]:
    """Curate every source. Returns the three outputs of each, and says loudly what most of a source was dropped for.

    Processes share the files and shards of all sources, so that a large source leaves none idle. Raises InputError for
    a source of which no document is kept.
    """
    with ThreadPoolExecutor(cores()) as threads:
        files = [path for located in sources for path in located.files]
        digests = dict(zip(files, threads.map(store.file_digest, files), strict=True))
    curate = partial(curate_source, digests=digests, limit=study.data.limit, rules=study.data.clean)
    size = sum(_characters_read(each, study.data.limit) for each in sources)
    chains = _side_by_side(study, store, curate, sources, size)
    for located, outputs in zip(sources, chains, strict=True):
        check_kept(located.source, outputs)
        if store.builds:
            say([*warnings(outputs), *unmarked_warnings(outputs[1])])
    return chains


def sign_sources(study: Study, store: Store, sources: Sequence[Located], cleaned: Sequence[Output]) -> list[Output]:
    """Sign the cleaned documents of every source for deduplication; a source signed before is not signed again."""
    signing = study.data.deduplicate.signing
    memory = memory_bytes(study.data.memory) // len(sources)

    def sign(store: Store, pair: tuple[Located, Output], run: Run = serial) -> Output:
        located, clean = pair
        return build_stage(
            store,
            "signatures",
            signing,
            [clean],
            lambda folder, report: sign_source(clean.path, folder, signing, memory=memory, run=run, progress=report),
            label=located.source.name,
            resumes=True,
        )

    return _side_by_side(study, store, sign, list(zip(sources, cleaned, strict=True)), kept_characters(cleaned))


def _side_by_side(study: Study, store: Store, build: Callable[..., Any], things: Sequence[Any], size: int) -> list[Any]:
    """Do `build(store, thing)` for each; where an output is missing, with processes for `size` characters in all."""
    try:
        return [build(Store(store.root, builds=False), thing) for thing in things]
    except Missing:
        if not store.builds:
            raise
    with workers(processes_for(study, size), study.data.cluster) as run:
        return at_once(lambda thing: build(store, thing, run=run), things, 1 if run is serial else len(things))


def kept_characters(outputs: Sequence[Output]) -> int:
    """Count the characters that stages kept."""
    counts = [count for output in outputs for count in output.results["counts"] if count["reason"] == KEPT]
    return sum(count["characters"] for count in counts)


def _characters_read(located: Located, limit: int | None) -> int:
    """Estimate the characters of the rows that are read of a source, by the sizes of its files."""
    size = sum(path.stat().st_size for path in located.files)
    limit = limit if limit is not None else located.source.limit
    return size if limit is None else min(size, limit * LIMITED_ROW)


def curate_source(
    store: Store,
    located: Located,
    *,
    digests: Mapping[Path, str],
    limit: int | None,
    rules: CleanSettings,
    run: Run = serial,
) -> list[Output]:
    """Run the three stages that look at one document at a time. Returns the outputs `documents`, `traces`, `clean`."""
    source, files = located.source, located.files
    build = partial(build_stage, store, label=source.name, resumes=True)
    read = build(
        "documents",
        # The weight of a source decides how it is packed, not what is read.
        {
            "source": {key: value for key, value in plain(source).items() if key != "weight"},
            "files": [digests[path] for path in files],
            "limit": limit,
        },
        [],
        lambda folder, report: read_source(
            source, files, folder, limit=limit, commit=located.commit, run=run, progress=report
        ),
    )
    stripped = build(
        "traces",
        {"marking": source.trace},
        [read],
        lambda folder, report: strip_traces(read.path, folder, marking=source.trace, run=run, progress=report),
    )
    cleaned = build(
        "clean", rules, [stripped], lambda folder, report: clean(stripped.path, folder, rules, run=run, progress=report)
    )
    return [read, stripped, cleaned]
