"""Prepare a study's data, from its sources to packed token shards: how each data output of the plan is made.

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

from flows.jobs.devices import cores
from flows.losses import check_kept, repetition, say, unmarked_warnings, warnings
from flows.plan import DataPlan, Plan, SourcePlan
from flows.study.configuration import Study
from flows.watching import progress
from pipeline.benchmarks.benchmark import Benchmark
from pipeline.benchmarks.items import benchmark_items
from pipeline.clean import clean
from pipeline.decontaminate.stage import decontaminate
from pipeline.dedup.signing import sign_source
from pipeline.dedup.stage import deduplicate
from pipeline.errors import InputError
from pipeline.progress import Progress
from pipeline.sources.repositories.folders import Absent, found_or_fetched
from pipeline.sources.stage import read_source
from pipeline.storage.documents import KEPT
from pipeline.storage.memory import memory_bytes
from pipeline.storage.parallel import Run, at_once, serial, workers
from pipeline.storage.store import Output
from pipeline.tokens.funnel import Stage, count_tokens
from pipeline.tokens.stage import pack
from pipeline.tokens.tokenizer import take_tokenizer, train_tokenizer
from pipeline.traces.stage import strip_traces
from pipeline.traces.strip import NONE, UNCLOSED
from pipeline.worlds.tasks import world_items
from pipeline.worlds.world import write_world

WORTH_PROCESSES = 100_000_000  # characters: below, starting processes takes longer than the work
LIMITED_ROW = 8_000  # characters that a row is taken to have where only some rows are read
PROCESS_MEMORY = 512 * 2**20  # bytes that one process of a data stage needs, whatever the size of the data

Call = Callable[[str, str, Callable[[], Any]], Any]
"""`call(kind, name, body)` shows a step while `body()` does the work, and returns what `body` returns."""
Work = Callable[[Path, Progress], Mapping[str, Any]]


def prepare_data(plan: Plan, call: Call) -> None:
    """Fetch what is not here, and make every data output that is missing; what a stage reads is checked.

    Raises InputError for sources that cannot be found or read, before any computing where that can be known.
    """
    for entry, splits in plan.absent:
        call("download", entry.name, partial(_fetch, plan, entry, splits))
    data, study = plan.data, plan.study
    make = partial(_make, plan, call)
    if data.world:
        make(data.world, "", lambda folder, report: write_world(folder, study.data.world, progress=report))
    make(data.items, "", partial(_write_items, plan))
    _curate_sources(plan, call)
    signatures = [one.signatures for one in data.sources]
    make(data.unique, "", partial(_deduplicate, study, data), resumes=True, uses=signatures)
    make(data.curated, "", partial(_decontaminate, study, data), resumes=True)
    say(warnings([data.unique, data.curated]))
    for benchmark in plan.benchmarks:
        if benchmark.late:
            late = data.late[benchmark.name]
            make(late, benchmark.name, partial(_look_for_items, plan, benchmark))
            say(
                [
                    f"benchmark {benchmark.name!r} is late: {len(late.results['found']):,} of its "
                    f"{late.results['items']:,} items stand in the data, and are left out of its score"
                ]
            )
    make(data.tokenizer, "", partial(_tokenizer, study, data))
    make(data.packed, "", partial(_pack, plan), resumes=True)
    say(repetition(study.training.tokens, data.packed.results["tokens"]))
    make(data.funnel, "", partial(_count, data))


def _make(plan: Plan, call: Call, output: Output, label: str, work: Work, **options: Any) -> None:
    """Make one output unless it is there, and report its progress. `options` and errors are those of `Store.build`."""
    name = f"{output.stage} {label}".strip()
    report = partial(progress.report, name)
    build = partial(plan.store.build, output, lambda folder: work(folder, report), **options)
    build() if output.done else call("data", name, build)
    report(1.0, "done")


def _fetch(plan: Plan, entry: Any, splits: Sequence[str]) -> None:
    """Fetch one data set from the hub. Raises InputError, within seconds, where that is not possible."""
    study = plan.study
    try:
        found_or_fetched(
            entry,
            splits,
            mirror=study.mirror,
            cache=study.folder / "hub",
            study=shlex.quote(shlex.split(study.arguments)[0]),
            progress=partial(progress.report, f"download {entry.name}"),
        )
    except Absent as error:
        others = [other.name for other, _ in plan.absent if other.name != entry.name]
        also = f"; also not here: {', '.join(dict.fromkeys(others))}" if others else ""
        raise InputError(f"{error}{also}") from error


def _write_items(plan: Plan, folder: Path, _: Progress) -> dict[str, Any]:
    """Collect the items that must not be in the training data."""
    tables = [world_items(plan.data.world.path)] if plan.data.world else []
    for benchmark in plan.benchmarks:
        plan.specifications(benchmark)  # which also finds what is missing, and writes texts
        if benchmark.late:
            continue
        found = plan.folder_of(benchmark, (benchmark.split,))
        assert found is not None, "benchmarks are fetched before"
        tables.append(benchmark_items(benchmark, found))
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    pq.write_table(table, folder / "items.parquet", compression="zstd")
    return {"items": len(table)}


def _curate_sources(plan: Plan, call: Call) -> None:
    """Curate every source: read, strip traces, clean, sign; say loudly what most of a source was dropped for.

    Processes share the files and shards of all sources, so that a large source leaves none idle. Raises InputError for
    a source of which no document is kept.
    """
    study, sources = plan.study, plan.data.sources

    def missing(*stages: str) -> list[SourcePlan]:
        return [one for one in sources if not all(getattr(one, stage).done for stage in stages)]

    def side_by_side(work: Callable[[SourcePlan, Run], None], wanted: Sequence[SourcePlan], size: int) -> None:
        for one in sources:
            if one not in wanted:
                work(one, serial)  # which only checks
        if wanted:
            with workers(processes_for(study, size), study.compute.cluster) as run:
                at_once(lambda one: work(one, run), wanted, 1 if run is serial else len(wanted))

    wanted = missing("documents", "traces", "clean")
    side_by_side(partial(_curate, plan, call), wanted, sum(_characters_read(study, one) for one in wanted))
    for one in sources:
        chain = [one.documents, one.traces, one.clean]
        check_kept(one.source, chain)
        say([*warnings(chain), *unmarked_warnings(one.traces)])
    unsigned = missing("signatures")
    side_by_side(partial(_sign, plan, call), unsigned, kept_characters([one.clean for one in unsigned]))


def _curate(plan: Plan, call: Call, one: SourcePlan, run: Run) -> None:
    """Make the outputs of the three stages that look at one document at a time."""
    study, source = plan.study, one.source
    make = partial(_make, plan, call, resumes=True)
    limit, rules = study.data.limit, study.data.clean

    def unchanged() -> list[Path]:
        plan.store.check_files(one.files, one.documents.configuration["files"])  # none of the built-in world
        return one.files

    make(
        one.documents,
        source.name,
        lambda folder, report: read_source(
            source, unchanged(), folder, limit=limit, commit=one.commit, run=run, progress=report
        ),
    )
    make(
        one.traces,
        source.name,
        lambda folder, report: strip_traces(one.documents.path, folder, marking=source.trace, run=run, progress=report),
    )
    make(
        one.clean,
        source.name,
        lambda folder, report: clean(one.traces.path, folder, rules, run=run, progress=report),
    )


def _sign(plan: Plan, call: Call, one: SourcePlan, run: Run) -> None:
    """Sign the cleaned documents of a source for deduplication; a source signed before is not signed again."""
    data = plan.study.data
    signing, memory = data.deduplicate.signing, memory_bytes(data.memory) // len(data.sources)
    _make(
        plan,
        call,
        one.signatures,
        one.source.name,
        lambda folder, report: sign_source(one.clean.path, folder, signing, memory=memory, run=run, progress=report),
        resumes=True,
    )


def _deduplicate(study: Study, data: DataPlan, folder: Path, report: Progress) -> dict[str, Any]:
    """Remove the duplicates among the documents of all sources."""
    cleaned = [one.clean for one in data.sources]
    return deduplicate(
        [output.path for output in cleaned],
        folder,
        study.data.deduplicate,
        signed=[one.signatures.path for one in data.sources],
        memory=study.data.memory,
        processes=processes_for(study, kept_characters(cleaned)),
        cluster=study.compute.cluster,
        progress=report,
    )


def _decontaminate(study: Study, data: DataPlan, folder: Path, report: Progress) -> dict[str, Any]:
    """Remove the documents that contain benchmark items."""
    return decontaminate(
        data.unique.path,
        folder,
        pq.read_table(data.items.path / "items.parquet"),
        study.data.decontaminate,
        processes=processes_for(study, kept_characters([data.unique])),
        cluster=study.compute.cluster,
        progress=report,
    )


def _look_for_items(plan: Plan, benchmark: Benchmark, folder: Path, report: Progress) -> dict[str, Any]:
    """Find the items of a late benchmark that stand in the curated documents, by the rules of decontamination."""
    place, rules = plan.folder_of(benchmark, (benchmark.split,)), plan.study.data.decontaminate
    assert place is not None, "benchmarks are fetched before"
    items, scratch = benchmark_items(benchmark, place), folder / "scratch"
    decontaminate(plan.data.curated.path, scratch, items, rules, progress=report)
    matches = pq.read_table(scratch / "matches.parquet").to_pylist()
    shutil.rmtree(scratch)
    return {"items": len(items), "found": sorted({row["item"] for row in matches if row["grade"] in rules.remove})}


def _tokenizer(study: Study, data: DataPlan, folder: Path, report: Progress) -> dict[str, Any]:
    """Train the tokenizer on the curated documents, or take the one that the study names."""
    wanted = study.data.tokenizer
    if wanted.hub:
        return take_tokenizer({"hub": wanted.hub, "revision": wanted.revision}, folder)
    if file := study.tokenizer_file:
        return take_tokenizer({"file": str(file)}, folder)
    return train_tokenizer(data.curated.path, folder, wanted.vocabulary_size, progress=report)


def _pack(plan: Plan, folder: Path, report: Progress) -> dict[str, Any]:
    """Tokenise the curated documents, and pack their tokens into shards."""
    study, data = plan.study, plan.data
    return pack(
        data.curated.path,
        data.tokenizer.path,
        folder,
        **plan.packing,
        processes=processes_for(study, kept_characters([data.curated])),
        cluster=study.compute.cluster,
        progress=report,
    )


def _count(data: DataPlan, folder: Path, report: Progress) -> dict[str, Any]:
    """Count the tokens that each of the finished stages kept and dropped."""
    parts = [Stage(output.key, output.path, output.results["counts"], _changed(output)) for output in data.counted]
    return {"counts": count_tokens(parts, data.packed.results["counts"], data.tokenizer.path, progress=report)}


def _changed(output: Output) -> frozenset[str]:
    """Collect the sources of which a stage stripped or mended a document; other stages keep texts as they are."""
    stripped = [row for row in output.results.get("traces", ()) if row["kind"] not in (NONE, UNCLOSED)]
    return frozenset(row["source"] for row in [*stripped, *output.results.get("mended", ())])


def curation_counts(data: DataPlan) -> Iterator[dict[str, Any]]:
    """List rows {stage, source, reason, documents, characters, tokens}: the whole curation, in order."""
    counted = data.funnel.results["counts"]
    tokens = {(row["stage"], row["source"], row["reason"]): row["tokens"] for row in counted}
    for output in [*data.counted, data.packed]:
        for row in output.results["counts"]:
            known = tokens.get((output.key, row["source"], row["reason"]), row.get("tokens"))
            yield {**row, "stage": output.stage, "tokens": known}


def processes_for(study: Study, size: int) -> int:
    """Count the processes for a stage that reads `size` characters: one, or the cores that `data.memory` allows."""
    room = int(memory_bytes(study.data.memory) // PROCESS_MEMORY)
    return max(1, min(cores(), room)) if size > WORTH_PROCESSES else 1


def kept_characters(outputs: Sequence[Output]) -> int:
    """Count the characters that stages kept."""
    counts = [count for output in outputs for count in output.results["counts"] if count["reason"] == KEPT]
    return sum(count["characters"] for count in counts)


def _characters_read(study: Study, one: SourcePlan) -> int:
    """Estimate the characters of the rows that are read of a source, by the sizes of its files."""
    size = sum(path.stat().st_size for path in one.files)
    limit = study.data.limit if study.data.limit is not None else one.source.limit
    return size if limit is None else min(size, limit * LIMITED_ROW)
