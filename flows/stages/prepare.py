"""Prepare a study's data, from its sources to packed token shards: every stage of `pipeline/`, through the store.

world -> documents -> traces -> clean -> signatures (each source)
    -> deduplicate -> decontaminate -> tokenizer -> tokens -> funnel
benchmark items -----------^
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.stages.building import build_stage
from flows.stages.losses import repetition, say, warnings
from flows.stages.outputs import Prepared, write_returned
from flows.stages.sources import (
    curate_sources,
    kept_characters,
    locate_benchmarks,
    locate_sources,
    processes_for,
    sign_sources,
)
from flows.stages.usage import register_user
from flows.study.configuration import BUILTIN, Study
from pipeline.benchmarks.benchmark import Benchmark
from pipeline.benchmarks.items import benchmark_items, task_specifications
from pipeline.decontaminate.stage import decontaminate
from pipeline.dedup.stage import deduplicate
from pipeline.progress import Progress
from pipeline.sources.repositories.splits import find_split, has_splits
from pipeline.sources.source import Source
from pipeline.storage.store import Output, Store
from pipeline.tokens.funnel import EXACT_CHARACTERS, Stage, count_tokens
from pipeline.tokens.stage import pack
from pipeline.tokens.tokenizer import SAMPLE_CHARACTERS, take_tokenizer, train_tokenizer
from pipeline.tokens.validation import validation_specification
from pipeline.traces.strip import NONE, UNCLOSED
from pipeline.worlds.tasks import world_items, world_specifications
from pipeline.worlds.world import write_world


def prepare_data(study: Study, store: Store) -> Prepared:
    """Run every data stage whose output is not in the store yet, and write down what has finished.

    Raises InputError for sources that cannot be found or read, before any computing where that can be known.
    """
    finished: list[Output] = []

    def finish(*outputs: Output) -> None:
        finished.extend(outputs)
        if store.builds:
            write_returned(study, Prepared(study.study_id, store.root, tuple(output.name for output in finished)))

    world = prepare_world(study, store)
    sources = locate_sources(study, world)
    items, tasks = _benchmark_items(study, store, world, locate_benchmarks(study))
    chains = curate_sources(study, store, sources)
    cleaned = [chain[-1] for chain in chains]
    finish(items, *(output for chain in chains for output in chain))
    signed = sign_sources(study, store, sources, cleaned)
    finish(*signed)
    unique = _deduplicated(study, store, cleaned, signed)
    curated = _decontaminated(study, store, unique, items)
    finish(unique, curated)
    if store.builds:
        say(warnings([unique, curated]))
    tokenizer = _tokenizer(study, store, curated)
    packed = _packed(study, store, [each.source for each in sources], curated, tokenizer)
    finish(tokenizer, packed)
    if store.builds:
        say(repetition(study.training.tokens, packed.results["tokens"]))
    if packed.results["validation"]:
        tasks.append(validation_specification(packed.path, study.training.loss_on))
    funnel = _funnel(store, finished, tokenizer, packed)
    names = tuple(output.name for output in [*finished, funnel])
    prepared = Prepared(study.study_id, store.root, names, tuple(tasks))
    write_returned(study, prepared)
    return prepared


def prepare_world(study: Study, store: Store) -> Output | None:
    """Register the study as a user of the store, and write the built-in world for a study that needs one."""
    if store.builds:
        register_user(study.store_folder, study.folder)  # before the first output: `dreamer clean` leaves it alone
    if not study.needs_world:
        return None
    settings = study.data.world
    return build_stage(
        store, "world", settings, [], lambda folder, report: write_world(folder, settings, progress=report)
    )


def _benchmark_items(
    study: Study, store: Store, world: Output | None, benchmarks: list[tuple[Benchmark, Path]]
) -> tuple[Output, list[dict[str, Any]]]:
    """Collect the items that must not be in the training data, and the tasks to evaluate."""
    tables, tasks = [], []
    if world and BUILTIN in study.evaluation.benchmarks:
        tasks += [task for task in world_specifications(world.path) if _is_trained(study, task)]
    if world:
        tables.append(world_items(world.path))
    for benchmark, folder in benchmarks:
        tables.append(benchmark_items(benchmark, folder))
        tasks += task_specifications(
            benchmark, folder, study.store_folder / "texts", beside=study.place, mirror=study.data.mirror
        )
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()

    def write(folder: Path, _: Progress) -> dict[str, Any]:
        pq.write_table(table, folder / "items.parquet", compression="zstd")
        return {"items": len(table)}

    configuration = {
        "builtin": BUILTIN in study.evaluation.benchmarks,
        "benchmarks": [benchmark for benchmark, _ in benchmarks],
        "data": [
            store.file_digest(path)
            for benchmark, folder in benchmarks
            for configuration in benchmark.configurations
            for split in benchmark.splits
            if split == benchmark.split or has_splits(folder, [(configuration, split)])
            for path in find_split(folder, configuration, split)
        ],
    }
    return build_stage(store, "items", configuration, [world] if world else [], write), tasks


def _is_trained(study: Study, task: Mapping[str, Any]) -> bool:
    """Leave perplexity of whole documents out for models that never learn to write questions."""
    return study.training.loss_on == "all" or task["benchmark"] != "world_text"


def _deduplicated(study: Study, store: Store, cleaned: Sequence[Output], signed: Sequence[Output]) -> Output:
    """Remove the duplicates among the documents of all sources."""
    data = study.data
    return build_stage(
        store,
        "deduplicate",
        data.deduplicate,
        cleaned,  # signatures are a function of these documents and of these settings
        lambda folder, report: deduplicate(
            [output.path for output in cleaned],
            folder,
            data.deduplicate,
            signed=[output.path for output in signed],
            memory=data.memory,
            processes=processes_for(study, kept_characters(cleaned)),
            cluster=data.cluster,
            progress=report,
        ),
        resumes=True,
    )


def _decontaminated(study: Study, store: Store, unique: Output, items: Output) -> Output:
    """Remove the documents that contain benchmark items."""
    data = study.data
    return build_stage(
        store,
        "decontaminate",
        data.decontaminate,
        [unique, items],
        lambda folder, report: decontaminate(
            unique.path,
            folder,
            pq.read_table(items.path / "items.parquet"),
            data.decontaminate,
            processes=processes_for(study, kept_characters([unique])),
            cluster=data.cluster,
            progress=report,
        ),
        resumes=True,
    )


def _tokenizer(study: Study, store: Store, curated: Output) -> Output:
    """Train the tokenizer on the curated documents, or take the one that the study names."""
    wanted = study.data.tokenizer
    if wanted.vocabulary_size and not (wanted.hub or wanted.file):
        size = wanted.vocabulary_size
        trained = {"vocabulary_size": size}
        if kept_characters([curated]) > SAMPLE_CHARACTERS:  # of less, all text is read
            trained["sample_characters"] = SAMPLE_CHARACTERS
        return build_stage(
            store,
            "tokenizer",
            trained,
            [curated],
            lambda folder, report: train_tokenizer(curated.path, folder, size, progress=report),
        )
    entry = {"hub": wanted.hub, "revision": wanted.revision} if wanted.hub else {"file": str(wanted.file)}
    configuration = entry if wanted.hub else {"file": store.file_digest(Path(str(wanted.file)))}
    return build_stage(store, "tokenizer", configuration, [], lambda folder, _: take_tokenizer(entry, folder))


def _packed(study: Study, store: Store, sources: Sequence[Source], curated: Output, tokenizer: Output) -> Output:
    """Tokenise the curated documents, and pack their tokens into shards."""
    shape = {
        "sequence_length": study.training.sequence_length,
        "seed": min(study.training.seeds),
        "validation": study.data.validation,
    }
    if weights := {source.name: source.weight for source in sources if source.weight != 1}:
        shape["weights"] = weights
    return build_stage(
        store,
        "tokens",
        shape,
        [curated, tokenizer],
        lambda folder, report: pack(
            curated.path,
            tokenizer.path,
            folder,
            **shape,
            processes=processes_for(study, kept_characters([curated])),
            cluster=study.data.cluster,
            progress=report,
        ),
        resumes=True,
    )


def _funnel(store: Store, finished: Sequence[Output], tokenizer: Output, packed: Output) -> Output:
    """Count the tokens that each of the finished stages kept and dropped."""
    stages = [output for output in finished if "counts" in output.results and output is not packed]
    parts = [Stage(output.key, output.path, output.results["counts"], _changed(output)) for output in stages]

    def count(_: Path, report: Progress) -> dict[str, Any]:
        return {"counts": count_tokens(parts, packed.results["counts"], tokenizer.path, progress=report)}

    return build_stage(store, "funnel", {"characters": EXACT_CHARACTERS}, [*stages, tokenizer, packed], count)


def _changed(output: Output) -> frozenset[str]:
    """Collect the sources of which a stage stripped or mended a document; other stages keep texts as they are."""
    stripped = [row for row in output.results.get("traces", ()) if row["kind"] not in (NONE, UNCLOSED)]
    return frozenset(row["source"] for row in [*stripped, *output.results.get("mended", ())])
