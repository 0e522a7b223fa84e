"""Prepare a study's data: make each data output of the plan, from sources to packed tokens.

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
    kept_and_dropped,
    repetition,
    say,
    stage_warnings,
    trace_warnings,
    warnings,
)
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import MIRROR
from dreamer_study.pipeline.benchmarks.asked import check_asked
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
from dreamer_study.pipeline.storage.memory import share_of_memory
from dreamer_study.pipeline.storage.parallel import (
    Progress,
    Workers,
    at_once,
    memory_bytes,
    serial,
    workers,
)
from dreamer_study.pipeline.storage.store import Output
from dreamer_study.pipeline.tokens.funnel import Stage, count_tokens
from dreamer_study.pipeline.tokens.pack_shards import pack
from dreamer_study.pipeline.tokens.tokenizer import take_tokenizer, train_tokenizer
from dreamer_study.pipeline.traces.examined import STRIPPED
from dreamer_study.pipeline.traces.strip_source import strip_traces
from dreamer_study.pipeline.worlds.tasks import world_items
from dreamer_study.pipeline.worlds.world import write_world
from dreamer_study.reports.text.numbers import counted

WORTH_PROCESSES = 100_000_000  # characters: below, starting processes takes longer than the work
LIMITED_ROW = 8_000  # characters that a row is taken to have where only some rows are read
# bytes that one process of a data stage needs, whatever the size of the data
PROCESS_MEMORY = 512 * 2**20

Work = Callable[..., Mapping[str, Any]]
"""`work(folder, progress=...)` fills the folder of an output; it returns the manifest's results."""


def prepare_data(plan: Plan, steps: Steps) -> None:
    """Fetch what is not here, and make every data output that is missing.

    What a stage reads is checked. Raises InputError for sources that cannot be found or read,
    before any computing where that can be known.
    """
    fetch_data(plan, steps)
    study = plan.study
    data = plan.data
    make = partial(_make, plan, steps)

    # What must not be in the training data is known before anything is curated.
    if data.world:
        make(data.world, "", partial(write_world, settings=study.data.world))
    make(data.items, "", partial(_write_items, plan))

    _curate_sources(plan, steps)
    signatures = [planned.signatures for planned in data.sources]
    make(data.unique, "", _deduplication(plan), resumes=True, uses=signatures)
    make(data.curated, "", partial(_decontaminate, study, data), resumes=True)
    say(warnings([data.unique, data.curated]))
    for benchmark in study.own_benchmarks:
        late = data.late.get(benchmark.name)
        if late:
            make(late, benchmark.name, partial(_look_for_items, plan, benchmark))
            say([_late_words(benchmark, late)])

    make(data.tokenizer, "", partial(_tokenizer, plan))
    packing = partial(
        pack,
        data.curated.path,
        data.tokenizer.path,
        **{name: value for name, value in plan.packing.items() if name != "held_out_like"},
        held_out_like=plan.like.packed.path if plan.like else None,
        **_workers(study, [data.curated]),
    )
    make(data.packed, "", packing, resumes=True)
    say(repetition(study.training.tokens, data.packed.results["tokens"]))
    make(data.funnel, "", partial(_count, data))


def fetch_data(plan: Plan, steps: Steps) -> None:
    """Fetch what is not here. Raises InputError for data sets that cannot be found."""
    if plan.study.mirror:
        plan.study.folder.mkdir(parents=True, exist_ok=True)
        write_text_atomically(plan.study.folder / MIRROR, str(plan.study.mirror))
    for entry in plan.absent:
        fetch = resumable(partial(_fetch, plan, entry))
        steps.call("download", entry.name, fetch)


def _deduplication(plan: Plan) -> Work:
    """Return the work that removes the duplicates among the documents of all sources."""
    settings = plan.study.data
    cleaned = [planned.clean for planned in plan.data.sources]
    return partial(
        deduplicate,
        [output.path for output in cleaned],
        settings=settings.deduplicate,
        signed=[planned.signatures.path for planned in plan.data.sources],
        memory=settings.memory,
        **_workers(plan.study, cleaned),
    )


def _late_words(benchmark: Benchmark, late: Output) -> str:
    in_data = len(late.results["found"])
    items = counted(late.results["items"], "item")
    return (
        f"benchmark {benchmark.name!r} is late: {in_data:,} of its {items} are in the training"
        " data, and are left out of its score"
    )


def _make(plan: Plan, steps: Steps, output: Output, label: str, work: Work, **options: Any) -> None:
    """Make one output unless it is there, report its progress, and log what it kept and dropped.

    `options` and errors are those of `Store.build`.
    """
    name = f"{output.stage} {label}".strip()
    progress = partial(report, name)
    was_done = output.done

    def build() -> None:
        plan.store.build(output, partial(work, progress=progress), **options)  # or only checks it
        if not was_done:
            for line in kept_and_dropped(output):
                steps.log(line)
        for warning in stage_warnings(output):
            steps.log(f"WARNING: {warning}")

    steps.call("data", name, build, made_of=output.inputs, makes=output.name, done=was_done)
    progress(1.0, "done")


def _fetch(plan: Plan, entry: Wanted) -> None:
    """Fetch one data set from the hub.

    Raises InputError, within seconds, where that is not possible.
    """
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
        message = str(error)
        others = [other.name for other in plan.absent if other.name != entry.name]
        if others:
            message += f"; also not here: {', '.join(dict.fromkeys(others))}"
        raise InputError(message) from error


def _write_items(plan: Plan, folder: Path, progress: Progress) -> dict[str, Any]:
    """Collect the items that must not be in the training data."""
    world = plan.data.world
    tables = [world_items(world.path) if world else ITEMS.empty_table()]
    for benchmark in plan.study.own_benchmarks:
        # which also finds what is missing, and writes texts
        specifications = plan.specifications(benchmark)
        if not benchmark.late:
            items = _items(plan, benchmark)
            check_asked(benchmark, specifications, items)
            tables.append(items)
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    pq.write_table(table, folder / "items.parquet", compression="zstd")
    return {"items": len(table)}


def _items(plan: Plan, benchmark: Benchmark) -> pa.Table:
    with share_of_memory(memory_bytes(plan.study.data.memory)):
        return benchmark_items(benchmark, plan.folder_of(benchmark))


def _curate_sources(plan: Plan, steps: Steps) -> None:
    """Curate every source: read, strip traces, clean, sign; warn of what dropped most of a source.

    Processes share the files and shards of all sources, so that a large source leaves none idle.
    Raises InputError for a source of which no document is kept.
    """
    study = plan.study
    sources = plan.data.sources
    unfinished = [
        planned
        for planned in sources
        if not all(output.done for output in (*planned.chain, planned.signatures))
    ]
    for planned in sources:
        if planned not in unfinished:
            _curate(plan, steps, planned, serial, 1)  # which only checks
    if unfinished:
        characters = sum(_characters_read(study, planned) for planned in unfinished)
        processes = processes_for(study, characters)
        with workers(processes, study.compute.cluster) as run:
            sources_at_once = 1 if run is serial else len(unfinished)
            at_once(
                lambda planned: _curate(plan, steps, planned, run, processes),
                unfinished,
                sources_at_once,
            )
    for planned in sources:
        check_kept(planned.source, planned.chain)
        say([*warnings(planned.chain), *trace_warnings(planned.traces)])


def _curate(plan: Plan, steps: Steps, planned: SourcePlan, run: Workers, processes: int) -> None:
    """Curate one source: make the outputs of the stages that look at one document at a time.

    What they keep is then signed for deduplication.
    """
    data = plan.study.data
    source = planned.source
    memory = memory_bytes(data.memory) // len(data.sources)
    make = partial(_make, plan, steps, resumes=True)

    def read(folder: Path, progress: Progress) -> dict[str, Any]:
        # the built-in world has none
        plan.store.check_files(planned.files, planned.documents.configuration["files"])
        return read_source(
            source,
            planned.files,
            folder,
            limit=data.limit_of(source),
            commit=planned.commit,
            run=run,
            progress=progress,
            memory=memory_bytes(data.memory) // processes,
        )

    strip = partial(strip_traces, planned.documents.path, **planned.traces.configuration, run=run)
    mend = partial(clean, planned.traces.path, settings=data.clean, run=run)
    sign = partial(
        sign_source,
        planned.clean.path,
        signing=data.deduplicate.signing,
        memory=memory,
        run=run,
    )
    make(planned.documents, source.name, read)
    make(planned.traces, source.name, strip)
    make(planned.clean, source.name, mend)
    make(planned.signatures, source.name, sign)


def _decontaminate(
    study: Study, data: DataPlan, folder: Path, progress: Progress
) -> dict[str, Any]:
    """Remove the documents that contain benchmark items."""
    return decontaminate(
        data.unique.path,
        folder,
        pq.read_table(data.items.path / "items.parquet"),
        study.data.decontaminate,
        **_workers(study, [data.unique]),
        progress=progress,
    )


def _look_for_items(
    plan: Plan, benchmark: Benchmark, folder: Path, progress: Progress
) -> dict[str, Any]:
    """Find the items of a late benchmark that are in the curated documents.

    The rules are those of decontamination, of which only the matches are kept.
    """
    rules = plan.study.data.decontaminate
    scratch = folder / "scratch"
    items = _items(plan, benchmark)
    check_asked(benchmark, plan.specifications(benchmark), items)
    decontaminate(plan.data.curated.path, scratch, items, rules, progress=progress)
    matches = pq.read_table(scratch / "matches.parquet").to_pylist()
    shutil.rmtree(scratch)
    in_data = {match["item"] for match in matches if match["grade"] in rules.remove}
    return {"items": len(items), "found": sorted(in_data)}


def _tokenizer(plan: Plan, folder: Path, progress: Progress) -> dict[str, Any]:
    """Train the tokenizer on the curated documents, or take the one that the study names."""
    if plan.tokenizer_file:
        return take_tokenizer({"file": str(plan.tokenizer_file)}, folder)
    wanted = plan.study.data.tokenizer
    if wanted.hub:
        return take_tokenizer({"hub": wanted.hub, "revision": wanted.revision}, folder)
    return train_tokenizer(
        plan.data.curated.path, folder, wanted.vocabulary_size, progress=progress
    )


def _count(data: DataPlan, folder: Path, progress: Progress) -> dict[str, Any]:
    """Count the tokens that each of the finished stages kept and dropped."""
    stages = [
        Stage(output.key, output.path, output.results["counts"], _changed(output))
        for output in data.counted
    ]
    counts = count_tokens(
        stages, data.packed.results["counts"], data.tokenizer.path, progress=progress
    )
    return {"counts": counts}


def _changed(output: Output) -> frozenset[str]:
    """Collect the sources of which a stage stripped or mended a document.

    Other stages do not change texts.
    """
    stripped = [row for row in output.results.get("traces", ()) if row["kind"] == STRIPPED]
    questions = output.results.get("questions", ())
    mended = output.results.get("mended", ())
    return frozenset(row["source"] for row in [*stripped, *questions, *mended])


def curation_counts(data: DataPlan) -> Iterator[dict[str, Any]]:
    """List the counts of the whole curation, in order.

    A row is {stage, source, reason, documents, characters, tokens}.
    """
    counted = data.funnel.results["counts"]
    tokens = {(row["stage"], row["source"], row["reason"]): row["tokens"] for row in counted}
    for output in [*data.counted, data.packed]:
        for row in output.results["counts"]:
            counted_by_packing = row.get("tokens")
            key = (output.key, row["source"], row["reason"])
            yield {**row, "stage": output.stage, "tokens": tokens.get(key, counted_by_packing)}


def processes_for(study: Study, size: int) -> int:
    """Choose the number of processes for a stage that reads `size` characters.

    One for each core, as many as `data.memory` allows; for little text a single one.
    """
    if size <= WORTH_PROCESSES:
        return 1
    fit_in_memory = int(memory_bytes(study.data.memory) // PROCESS_MEMORY)
    return max(1, min(cores(), fit_in_memory))


def _workers(study: Study, read: Sequence[Output]) -> dict[str, Any]:
    """Return the processes, or the cluster, for a stage that reads what other stages kept."""
    return {
        "processes": processes_for(study, kept_characters(read)),
        "cluster": study.compute.cluster,
    }


def kept_characters(outputs: Sequence[Output]) -> int:
    """Count the characters that stages kept."""
    rows = [row for output in outputs for row in output.results["counts"]]
    return sum(row["characters"] for row in rows if row["reason"] == KEPT)


def _characters_read(study: Study, planned: SourcePlan) -> int:
    """Estimate the characters of the rows that are read of a source, by the sizes of its files."""
    size = sum(path.stat().st_size for path in planned.files)
    limit = study.data.limit_of(planned.source)
    if limit is None:
        return size
    return min(size, limit * LIMITED_ROW)
