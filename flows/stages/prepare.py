"""From the sources a study names to packed token shards: each stage of `pipeline/`, in order, through the store.

world -> documents -> traces -> clean  (each source)  -> deduplicate -> decontaminate -> tokenizer -> tokens -> funnel
benchmark items ------------------------------------------------------------^

The chains of the sources do not depend on each other: they run in turn, in processes, or on the workers of a cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.running import progress
from flows.running.processes import cores
from flows.stages.outputs import remember
from flows.study.configuration import BUILTIN, Study, settings
from pipeline.benchmarks.benchmark import Benchmark
from pipeline.benchmarks.items import benchmark_items, task_specifications
from pipeline.benchmarks.table import resolve_benchmark
from pipeline.clean import CleanSettings, clean
from pipeline.decontaminate.settings import DecontaminationSettings
from pipeline.decontaminate.stage import decontaminate
from pipeline.dedup.settings import DedupSettings
from pipeline.dedup.stage import deduplicate
from pipeline.sources.repositories import repository_folder, source_files
from pipeline.sources.source import Source
from pipeline.sources.splits import find_split, has_splits
from pipeline.sources.stage import read_source
from pipeline.sources.table import resolve_source
from pipeline.storage.documents import KEPT
from pipeline.storage.memory import memory_bytes
from pipeline.storage.parallel import workers
from pipeline.storage.store import Missing, Output, Store
from pipeline.tokens.funnel import EXACT_CHARACTERS, Stage, count_tokens
from pipeline.tokens.stage import pack
from pipeline.tokens.tokenizer import take_tokenizer, train_tokenizer
from pipeline.traces import strip_traces
from pipeline.worlds.tasks import world_items, world_specifications
from pipeline.worlds.world import WORLD_SOURCE, WorldSettings, write_world

# A stage's version goes up whenever its code changes what it writes: old outputs are then not used again.
VERSIONS = {
    "world": 1,
    "documents": 2,
    "traces": 3,
    "clean": 1,
    "deduplicate": 3,
    "decontaminate": 4,
    "items": 1,
    "tokenizer": 1,
    "tokens": 1,
    "funnel": 1,
}
UNCHANGED = ("deduplicate", "decontaminate")  # stages that leave the texts they keep as they are

WORTH_PROCESSES = 100_000_000  # characters: below, starting processes takes longer than the work
PROCESS_MEMORY = 512 * 2**20  # what one process of a data stage needs, whatever the size of the data


@dataclass(frozen=True)
class Prepared:
    """What training and evaluation need of the data, and for the funnel the outputs of all stages in order, whose
    counts also say tokens."""

    tokenizer: Output
    packed: Output
    items: Output
    specifications: list[dict[str, Any]]
    stages: list[Output]

    @property
    def vocabulary_size(self) -> int:
        """Of the tokenizer, and so of the models."""
        return self.tokenizer.results["vocabulary_size"]


def prepare_data(study: Study, store: Store) -> Prepared:
    """Run every stage that is not in the store yet.

    Raises InputError for sources that cannot be found or read, before anything is computed where that can be known.
    """
    world = _world(study, store)
    places = locate_sources(study, world)
    benchmarks = locate_benchmarks(study)
    items, specifications = _benchmark_items(study, store, world, benchmarks)
    chains = _curate_sources(study, store, places)
    stages, cleaned = [output for chain in chains for output in chain], [chain[-1] for chain in chains]
    _remember(study, store, stages)
    unique = _build(
        store,
        "deduplicate",
        settings(study.data.deduplicate, DedupSettings),
        cleaned,
        lambda folder, say: deduplicate(
            [o.path for o in cleaned],
            folder,
            settings(study.data.deduplicate, DedupSettings),
            memory=study.data.memory,
            processes=_processes(study, _characters(cleaned)),
            progress=say,
        ),
        resumes=True,
    )
    curated = _build(
        store,
        "decontaminate",
        settings(study.data.decontaminate, DecontaminationSettings),
        [unique, items],
        lambda folder, say: decontaminate(
            unique.path,
            folder,
            pq.read_table(items.path / "items.parquet"),
            settings(study.data.decontaminate, DecontaminationSettings),
            processes=_processes(study, _characters([unique])),
            progress=say,
        ),
        resumes=True,
    )
    stages += [unique, curated]
    _remember(study, store, stages)
    tokenizer = _tokenizer(study, store, curated)
    length, seed = study.training.sequence_length, min(study.training.seeds)
    processes = _processes(study, _characters([curated]))
    packed = _build(
        store,
        "tokens",
        {"sequence_length": length, "seed": seed},
        [curated, tokenizer],
        lambda folder, say: pack(
            curated.path,
            tokenizer.path,
            folder,
            sequence_length=length,
            seed=seed,
            processes=processes,
            cluster=study.data.cluster,
            progress=say,
        ),
        resumes=True,
    )
    _remember(study, store, [*stages, tokenizer, packed])
    return Prepared(tokenizer, packed, items, specifications, _with_tokens(store, stages, tokenizer, packed))


def locate_sources(study: Study, world: Output | None) -> list[tuple[Source, list[Path]]]:
    """The files of every source, the built-in world's once that is written.

    Raises InputError, within seconds, for one that is neither in the mirror nor on the hub.
    """
    places = []
    for entry in study.data.sources:
        if entry == BUILTIN and world is None:
            continue
        source = resolve_source(WORLD_SOURCE if entry == BUILTIN else entry)
        mirror = world.path if entry == BUILTIN and world else study.data.mirror
        folder = repository_folder(
            source.repository,
            mirror=mirror,
            cache=study.folder / "hub",
            revision=source.revision,
            configurations=source.configurations,
            splits=source.splits,
        )
        places.append((source, source_files(source, folder)))
    return places


def locate_benchmarks(study: Study) -> list[tuple[Benchmark, Path]]:
    """The repository folders of the study's benchmarks, without the built-in world's."""
    places = []
    for entry in study.evaluation.benchmarks:
        if entry == BUILTIN:
            continue
        benchmark = resolve_benchmark(entry)
        folder = repository_folder(
            benchmark.repository,
            mirror=study.data.mirror,
            cache=study.folder / "hub",
            revision=benchmark.revision,
            configurations=benchmark.configurations,
            splits=(benchmark.split,),
        )
        places.append((benchmark, folder))
    return places


def _world(study: Study, store: Store) -> Output | None:
    if not study.needs_world:
        return None
    chosen = settings(study.data.world, WorldSettings)
    return _build(store, "world", chosen, [], lambda folder, say: write_world(folder, chosen, progress=say))


def _benchmark_items(
    study: Study, store: Store, world: Output | None, benchmarks: list[tuple[Benchmark, Path]]
) -> tuple[Output, list[dict[str, Any]]]:
    """The items that must not be in the training data, and the tasks that evaluation runs."""
    tables, specifications = [], []
    if world and BUILTIN in study.evaluation.benchmarks:
        specifications += [task for task in world_specifications(world.path) if _is_trained(study, task)]
    if world:
        tables.append(world_items(world.path))
    for benchmark, folder in benchmarks:
        tables.append(benchmark_items(benchmark, folder))
        specifications += task_specifications(benchmark, folder, study.store_folder / "texts")
    table = pa.concat_tables(tables).combine_chunks()

    def work(folder: Path, _: Callable[[float, str], None]) -> dict[str, Any]:
        pq.write_table(table, folder / "items.parquet", compression="zstd")
        return {"items": len(table)}

    configuration = {
        "builtin": BUILTIN in study.evaluation.benchmarks,
        "benchmarks": [_plain(dataclasses.asdict(benchmark)) for benchmark, _ in benchmarks],
        "data": [
            store.file_digest(path)
            for benchmark, folder in benchmarks
            for configuration in benchmark.configurations
            for split in benchmark.splits
            if split == benchmark.split or has_splits(folder, [(configuration, split)])
            for path in find_split(folder, configuration, split)
        ],
    }
    return _build(store, "items", configuration, [world] if world else [], work), specifications


def _is_trained(study: Study, task: Mapping[str, Any]) -> bool:
    """Perplexity of whole documents says nothing of a model that never learns to write questions."""
    return study.training.loss_on == "all" or task["benchmark"] != "world_text"


def _characters(inputs: list[Output]) -> int:
    counts = [count for output in inputs for count in output.results["counts"] if count["reason"] == KEPT]
    return sum(count["characters"] for count in counts)


def _processes(study: Study, size: int) -> int:
    """How many processes a stage is given: all cores where its inputs are large enough to pay for starting them, but
    no more than `data.memory` has room for."""
    room = int(memory_bytes(study.data.memory) // PROCESS_MEMORY)
    return max(1, min(cores(), room)) if size > WORTH_PROCESSES else 1


def _curate_sources(study: Study, store: Store, places: list[tuple[Source, list[Path]]]) -> list[list[Output]]:
    """The chain of every source: found where it is finished, else built, several at a time where that pays."""
    rules = settings(study.data.clean, CleanSettings)
    chains = [
        (source, files, [store.file_digest(path) for path in files], study.data.limit, rules)
        for source, files in places
    ]
    try:
        return [curate_source(Store(store.root, builds=False), *chain) for chain in chains]
    except Missing:
        if not store.builds:
            raise
    size = sum(path.stat().st_size for _, files in places for path in files) if study.data.limit is None else 0
    processes = min(_processes(study, size), len(chains))
    done = []
    with workers(processes, study.data.cluster) as run:
        built = run(curate_source, [(store, *chain) for chain in chains])
        for (source, _), outputs in zip(places, built, strict=True):
            done.append(outputs)
            progress.report(f"clean {source.name}", 1.0, "done")
    return done


def curate_source(
    store: Store, source: Source, files: list[Path], digests: list[str], limit: int | None, rules: CleanSettings
) -> list[Output]:
    """Documents, without traces, cleaned: the three stages that look at one document at a time."""
    read = _build(
        store,
        "documents",
        {"source": _plain(dataclasses.asdict(source)), "files": digests, "limit": limit},
        [],
        lambda folder, say: read_source(source, files, folder, limit=limit, progress=say),
        label=source.name,
        resumes=True,
    )
    stripped = _build(
        store,
        "traces",
        {"marking": source.trace},
        [read],
        lambda folder, say: strip_traces(read.path, folder, marking=source.trace, progress=say),
        label=source.name,
        resumes=True,
    )
    cleaned = _build(
        store,
        "clean",
        rules,
        [stripped],
        lambda folder, say: clean(stripped.path, folder, rules, progress=say),
        label=source.name,
        resumes=True,
    )
    return [read, stripped, cleaned]


def _with_tokens(store: Store, stages: list[Output], tokenizer: Output, packed: Output) -> list[Output]:
    """The outputs of the stages, and the packed one, with tokens in their counts."""
    parts = [Stage(output.key, output.path, output.results["counts"], output.stage in UNCHANGED) for output in stages]
    counted = _build(
        store,
        "funnel",
        {"characters": EXACT_CHARACTERS},
        [*stages, tokenizer, packed],
        lambda _, say: {"counts": count_tokens(parts, packed.results["counts"], tokenizer.path, progress=say)},
    )
    tokens = {(row["stage"], row["source"], row["reason"]): row["tokens"] for row in counted.results["counts"]}
    found = []
    for output in stages:
        counts = [
            {**row, "tokens": tokens[output.key, row["source"], row["reason"]]} for row in output.results["counts"]
        ]
        results = {**output.results, "counts": counts}
        found.append(dataclasses.replace(output, manifest={**output.manifest, "results": results}))
    return [*found, packed]


def _remember(study: Study, store: Store, outputs: list[Output]) -> None:
    if store.builds:
        remember(study, outputs)


def _tokenizer(study: Study, store: Store, curated: Output) -> Output:
    wanted = study.data.tokenizer
    if wanted.vocabulary_size and not (wanted.hub or wanted.file):
        size = wanted.vocabulary_size
        return _build(
            store,
            "tokenizer",
            {"vocabulary_size": size},
            [curated],
            lambda folder, say: train_tokenizer(curated.path, folder, size),
        )
    entry = {"hub": wanted.hub, "revision": wanted.revision} if wanted.hub else {"file": str(wanted.file)}
    configuration = entry if wanted.hub else {"file": store.file_digest(Path(str(wanted.file)))}
    return _build(store, "tokenizer", configuration, [], lambda folder, say: take_tokenizer(entry, folder))


def _build(
    store: Store,
    stage: str,
    configuration: Any,
    inputs: list[Output],
    work: Callable[[Path, Callable[[float, str], None]], Mapping[str, Any]],
    *,
    label: str = "",
    resumes: bool = False,
) -> Output:
    """`Store.build` with the stage's version, settings dataclasses as configuration, and progress under one name."""
    key = f"{stage} {label}".strip()
    plain = _plain(dataclasses.asdict(configuration) if dataclasses.is_dataclass(configuration) else configuration)
    say = partial(progress.report, key)
    output = store.build(stage, VERSIONS[stage], plain, inputs, lambda folder: work(folder, say), resumes=resumes)
    progress.report(key, 1.0, "done")
    return output


def _plain(value: Any) -> Any:
    """Only what JSON knows: tuples become lists, paths and other things their text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
