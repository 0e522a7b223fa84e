"""Prepare a study's data, from its sources to packed token shards: how each data output of the plan
is made.

world -> documents -> traces -> clean -> signatures (each source)
    -> deduplicate -> decontaminate -> tokenizer -> tokens -> funnel
benchmark items -----------^
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dreamer_study.flows.jobs.devices import cores
from dreamer_study.flows.jobs.retries import resumable
from dreamer_study.flows.plan.data_plan import DataPlan, SourcePlan, Wanted, splits_of
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.reports import report
from dreamer_study.flows.running.curation_warnings import (
    check_kept,
    counted,
    repetition,
    say,
    stage_warnings,
    unmarked_warnings,
    warnings,
)
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import MIRROR
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.benchmarks.items import ITEMS, benchmark_items
from dreamer_study.pipeline.clean import clean
from dreamer_study.pipeline.decontaminate.decontaminate import decontaminate
from dreamer_study.pipeline.dedup.deduplicate import deduplicate
from dreamer_study.pipeline.dedup.signing import sign_source
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.read import read_source
from dreamer_study.pipeline.sources.repositories.folders import Absent, found_or_fetched
from dreamer_study.pipeline.storage.documents import KEPT
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.pipeline.storage.parallel import (
    Progress,
    Run,
    at_once,
    memory_bytes,
    serial,
    workers,
)
from dreamer_study.pipeline.storage.store import Output
from dreamer_study.pipeline.tokens.funnel import Stage, count_tokens
from dreamer_study.pipeline.tokens.pack_shards import pack
from dreamer_study.pipeline.tokens.tokenizer import take_tokenizer, train_tokenizer
from dreamer_study.pipeline.traces.strip import STRIPPED
from dreamer_study.pipeline.traces.strip_source import strip_traces
from dreamer_study.pipeline.worlds.tasks import world_items
from dreamer_study.pipeline.worlds.world import write_world

WORTH_PROCESSES = 100_000_000  # characters: below, starting processes takes longer than the work
LIMITED_ROW = 8_000  # characters that a row is taken to have where only some rows are read
# bytes that one process of a data stage needs, whatever the size of the data
PROCESS_MEMORY = 512 * 2**20

Work = Callable[..., Mapping[str, Any]]
"""`work(folder, progress=...)` fills the folder of an output, and returns the results for its
manifest."""


def prepare_data(plan: Plan, steps: Steps) -> None:
    """Fetch what is not here, and make every data output that is missing; what a stage reads is
    checked.

    Raises InputError for sources that cannot be found or read, before any computing where that can
    be known.
    """
    if plan.study.mirror:
        plan.study.folder.mkdir(parents=True, exist_ok=True)
        write_text_atomically(plan.study.folder / MIRROR, str(plan.study.mirror))
    for entry in plan.absent:
        fetch = resumable(partial(_fetch, plan, entry))
        steps.call("download", entry.name, fetch)
    data, study = plan.data, plan.study
    make = partial(_make, plan, steps)
    if data.world:
        make(data.world, "", partial(write_world, settings=study.data.world))
    make(data.items, "", partial(_write_items, plan))
    _curate_sources(plan, steps)
    cleaned, signatures = (
        [one.clean for one in data.sources],
        [one.signatures for one in data.sources],
    )
    without_duplicates = partial(
        deduplicate,
        [output.path for output in cleaned],
        settings=study.data.deduplicate,
        signed=[output.path for output in signatures],
        memory=study.data.memory,
        **_workers(study, cleaned),
    )
    make(data.unique, "", without_duplicates, resumes=True, uses=signatures)
    make(data.curated, "", partial(_decontaminate, study, data), resumes=True)
    say(warnings([data.unique, data.curated]))
    for benchmark in study.own_benchmarks:
        if late := data.late.get(benchmark.name):
            make(late, benchmark.name, partial(_look_for_items, plan, benchmark))
            found = f"{len(late.results['found']):,} of its {late.results['items']:,} items"
            say(
                [
                    f"benchmark {benchmark.name!r} is late: {found} stand in the data, and are left"
                    " out of its score"
                ]
            )
    make(data.tokenizer, "", partial(_tokenizer, study, data))
    packing = partial(
        pack,
        data.curated.path,
        data.tokenizer.path,
        **plan.packing,
        **_workers(study, [data.curated]),
    )
    make(data.packed, "", packing, resumes=True)
    say(repetition(study.training.tokens, data.packed.results["tokens"]))
    make(data.funnel, "", partial(_count, data))


def _make(plan: Plan, steps: Steps, output: Output, label: str, work: Work, **options: Any) -> None:
    """Make one output unless it is there, report its progress, and log what it kept and dropped.

    `options` and errors are those of `Store.build`.
    """
    name = f"{output.stage} {label}".strip()
    progress = partial(report, name)
    was_done = output.done

    def build() -> None:
        plan.store.build(output, partial(work, progress=progress), **options)
        if not was_done:
            for line in counted(output):
                steps.log(line)
        for warning in stage_warnings(output):
            steps.log(f"WARNING: {warning}")

    steps.call("data", name, build, made_of=output.inputs, makes=output.name, done=was_done)
    progress(1.0, "done")


def _fetch(plan: Plan, entry: Wanted) -> None:
    """Fetch one data set from the hub. Raises InputError, within seconds, where that is not
    possible."""
    study = plan.study
    try:
        found_or_fetched(
            entry,
            splits_of(entry),
            mirror=study.mirror,
            cache=study.folder / "hub",
            study=shlex.quote(shlex.split(study.arguments)[0]),
            progress=partial(report, f"download {entry.name}"),
        )
    except Absent as error:
        others = [other.name for other in plan.absent if other.name != entry.name]
        also = f"; also not here: {', '.join(dict.fromkeys(others))}" if others else ""
        raise InputError(f"{error}{also}") from error


def _write_items(plan: Plan, folder: Path, progress: Progress) -> dict[str, Any]:
    """Collect the items that must not be in the training data."""
    tables = [world_items(plan.data.world.path) if plan.data.world else ITEMS.empty_table()]
    for benchmark in plan.study.own_benchmarks:
        plan.specifications(benchmark)  # which also finds what is missing, and writes texts
        if not benchmark.late:
            tables.append(benchmark_items(benchmark, plan.folder_of(benchmark)))
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    pq.write_table(table, folder / "items.parquet", compression="zstd")
    return {"items": len(table)}


def _curate_sources(plan: Plan, steps: Steps) -> None:
    """Curate every source: read, strip traces, clean, sign; warn of every reason that dropped most
    of a source.

    Processes share the files and shards of all sources, so that a large source leaves none idle.
    Raises InputError for a source of which no document is kept.
    """
    study, sources = plan.study, plan.data.sources
    wanted = [
        one for one in sources if not all(output.done for output in (*one.chain, one.signatures))
    ]
    for one in sources:
        if one not in wanted:
            _curate(plan, steps, one, serial)  # which only checks
    if wanted:
        size = sum(_characters_read(study, one) for one in wanted)
        with workers(processes_for(study, size), study.compute.cluster) as run:
            at_once(
                lambda one: _curate(plan, steps, one, run),
                wanted,
                1 if run is serial else len(wanted),
            )
    for one in sources:
        check_kept(one.source, one.chain)
        say([*warnings(one.chain), *unmarked_warnings(one.traces)])


def _curate(plan: Plan, steps: Steps, one: SourcePlan, run: Run) -> None:
    """Make the outputs of the stages that look at one document at a time, then sign what is kept
    for deduplication."""
    data, source = plan.study.data, one.source
    memory = memory_bytes(data.memory) // len(data.sources)
    make = partial(_make, plan, steps, resumes=True)

    def read(folder: Path, progress: Progress) -> dict[str, Any]:
        # the built-in world has none
        plan.store.check_files(one.files, one.documents.configuration["files"])
        options = {"limit": data.limit_of(source), "commit": one.commit, "run": run}
        return read_source(source, one.files, folder, **options, progress=progress)

    make(one.documents, source.name, read)
    make(
        one.traces,
        source.name,
        partial(strip_traces, one.documents.path, **one.traces.configuration, run=run),
    )
    make(one.clean, source.name, partial(clean, one.traces.path, settings=data.clean, run=run))
    signing = {"signing": data.deduplicate.signing, "memory": memory, "run": run}
    make(one.signatures, source.name, partial(sign_source, one.clean.path, **signing))


def _decontaminate(
    study: Study, data: DataPlan, folder: Path, progress: Progress
) -> dict[str, Any]:
    """Remove the documents that contain benchmark items."""
    items, settings = pq.read_table(data.items.path / "items.parquet"), study.data.decontaminate
    return decontaminate(
        data.unique.path,
        folder,
        items,
        settings,
        **_workers(study, [data.unique]),
        progress=progress,
    )


def _look_for_items(
    plan: Plan, benchmark: Benchmark, folder: Path, progress: Progress
) -> dict[str, Any]:
    """Find the items of a late benchmark that stand in the curated documents, by the rules of
    decontamination."""
    rules, scratch = plan.study.data.decontaminate, folder / "scratch"
    items = benchmark_items(benchmark, plan.folder_of(benchmark))
    decontaminate(plan.data.curated.path, scratch, items, rules, progress=progress)
    matches = pq.read_table(scratch / "matches.parquet").to_pylist()
    shutil.rmtree(scratch)
    return {
        "items": len(items),
        "found": sorted({row["item"] for row in matches if row["grade"] in rules.remove}),
    }


def _tokenizer(study: Study, data: DataPlan, folder: Path, progress: Progress) -> dict[str, Any]:
    """Train the tokenizer on the curated documents, or take the one that the study names."""
    wanted = study.data.tokenizer
    if wanted.hub:
        return take_tokenizer({"hub": wanted.hub, "revision": wanted.revision}, folder)
    if file := study.tokenizer_file:
        return take_tokenizer({"file": str(file)}, folder)
    return train_tokenizer(data.curated.path, folder, wanted.vocabulary_size, progress=progress)


def _count(data: DataPlan, folder: Path, progress: Progress) -> dict[str, Any]:
    """Count the tokens that each of the finished stages kept and dropped."""
    parts = [
        Stage(output.key, output.path, output.results["counts"], _changed(output))
        for output in data.counted
    ]
    return {
        "counts": count_tokens(
            parts, data.packed.results["counts"], data.tokenizer.path, progress=progress
        )
    }


def _changed(output: Output) -> frozenset[str]:
    """Collect the sources of which a stage stripped or mended a document; other stages keep texts
    as they are."""
    stripped = [row for row in output.results.get("traces", ()) if row["kind"] == STRIPPED]
    return frozenset(row["source"] for row in [*stripped, *output.results.get("mended", ())])


def curation_counts(data: DataPlan) -> Iterator[dict[str, Any]]:
    """List rows {stage, source, reason, documents, characters, tokens}: the whole curation, in
    order."""
    counted = data.funnel.results["counts"]
    tokens = {(row["stage"], row["source"], row["reason"]): row["tokens"] for row in counted}
    for output in [*data.counted, data.packed]:
        for row in output.results["counts"]:
            known = tokens.get((output.key, row["source"], row["reason"]), row.get("tokens"))
            yield {**row, "stage": output.stage, "tokens": known}


def processes_for(study: Study, size: int) -> int:
    """Count the processes for a stage that reads `size` characters: one, or the cores that
    `data.memory` allows."""
    room = int(memory_bytes(study.data.memory) // PROCESS_MEMORY)
    return max(1, min(cores(), room)) if size > WORTH_PROCESSES else 1


def _workers(study: Study, read: Sequence[Output]) -> dict[str, Any]:
    """Return the number of processes, or the cluster, for a stage that reads documents which other
    stages kept."""
    return {
        "processes": processes_for(study, kept_characters(read)),
        "cluster": study.compute.cluster,
    }


def kept_characters(outputs: Sequence[Output]) -> int:
    """Count the characters that stages kept."""
    counts = [
        count for output in outputs for count in output.results["counts"] if count["reason"] == KEPT
    ]
    return sum(count["characters"] for count in counts)


def _characters_read(study: Study, one: SourcePlan) -> int:
    """Estimate the characters of the rows that are read of a source, by the sizes of its files."""
    size, limit = sum(path.stat().st_size for path in one.files), study.data.limit_of(one.source)
    return size if limit is None else min(size, limit * LIMITED_ROW)
