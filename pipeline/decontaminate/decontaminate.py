"""Decontaminate: remove documents that contain items of the study's benchmarks, and record each
finding.

1. index: the items' n-grams (`item_index`).
2. count: which of these n-grams are common in a sample of the documents (`frequencies`).
3. scan: grade each document that has n-grams in common with an item (`scan`, `coverage`).
4. write: kept and dropped documents and all findings, shard by shard.

By default the grades `exact`, `overlap`, `solution` and `rephrased` are removed;
`rephrased_formula`, `rephrased_loosely` and `template` (like wording, another problem) are recorded
only.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dreamer_study.pipeline.decontaminate.frequencies import Frequencies
from dreamer_study.pipeline.decontaminate.item_index import ItemIndex
from dreamer_study.pipeline.decontaminate.passages import FURTHER_COLUMNS, ITEM_COLUMNS
from dreamer_study.pipeline.decontaminate.sample import sample_documents
from dreamer_study.pipeline.decontaminate.scan import Match, search, searched_text
from dreamer_study.pipeline.decontaminate.settings import GRADES, DecontaminationSettings
from dreamer_study.pipeline.storage.documents import (
    DocumentWriter,
    Shard,
    find_shards,
    numbered_batches,
    sum_counts,
)
from dreamer_study.pipeline.storage.files import atomic_file
from dreamer_study.pipeline.storage.parallel import Progress, quiet, workers
from dreamer_study.pipeline.storage.resumable import (
    make_once,
    resumable_parts,
    save_arrays,
    write_document_shard,
)

MATCHES = pa.schema(
    {
        "id": pa.string(),
        "source": pa.string(),
        "item": pa.string(),
        "benchmark": pa.string(),
        "grade": pa.string(),
        "coverage": pa.float64(),
    }
)


def decontaminate(
    source: Path,
    output: Path,
    items: pa.Table,
    settings: DecontaminationSettings,
    *,
    processes: int = 1,
    cluster: str | None = None,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Remove documents that contain benchmark items.

    `items` has the columns id, benchmark, question, answer; the columns options (one option a line)
    and solution may be there too.

    Writes `documents/`, `dropped/` (reason `contaminated_<grade>`, because: the item's id) and
    `matches.parquet`, every finding of every grade (id, source, item, benchmark, grade, coverage),
    under `output`. Among several items the one of the better grade, then the higher coverage, then
    the smaller id is the cause. The result depends neither on the number of processes nor on a
    `cluster` (`pipeline/storage/parallel.py`); a killed stage continues from its finished
    shards.

    Returns "counts", "items", "short_items" (match only whole) and "templated_items" (can be found
    exact only). Raises InputError for a shard that cannot be read and for a full disk.
    """
    output = Path(output)
    further = [name for name in FURTHER_COLUMNS if name in items.column_names]
    items = items.select([*ITEM_COLUMNS, *further])
    files = tuple(find_shards([source]))
    made_from = [asdict(settings), items.to_pylist()]
    with (
        resumable_parts(output, made_from, files) as folder,
        workers(processes, cluster) as run,
        ExitStack() as stack,
    ):
        stack.callback(_index.cache_clear)
        make_once(folder / "items.parquet", lambda path: pq.write_table(items, path))
        index = _index(folder, files, settings)
        counts = []
        with pq.ParquetWriter(output / "matches.parquet", MATCHES) as matches:
            tasks = (
                (shard, number, files, settings, output, folder)
                for number, shard in enumerate(files)
            )
            for number, shard in enumerate(run(_search, tasks)):
                counts.append(shard["counts"])
                matches.write_table(pq.read_table(folder / f"matches-{number}.parquet"))
                progress((number + 1) / len(files), "comparing with benchmarks")
    return {
        "counts": sum_counts(counts),
        "items": len(items),
        "short_items": len(items) - int((index.searched & index.question).sum()),
        "templated_items": index.templated,
    }


@lru_cache(1)
def _index(folder: Path, files: tuple[Shard, ...], settings: DecontaminationSettings) -> ItemIndex:
    """Build and settle the index of the items in `folder`, once in each process.

    N-grams are counted once, by the first process.
    """
    index = ItemIndex(pq.read_table(folder / "items.parquet"), settings)

    def count(path: Path) -> None:
        frequencies = Frequencies(index)
        sampled = 0
        for batch in sample_documents(files, settings.sample, ["question", "response"]):
            frequencies.add(searched_text(batch["question"], batch["response"]))
            sampled += len(batch)
        save_arrays(path, frequencies=frequencies.without_copies(), sampled=np.array(sampled))

    with np.load(make_once(folder / "frequencies.npz", count)) as counts:
        common = int(settings.common_share * counts["sampled"])
        index.settle(counts["frequencies"], max(settings.common_documents, common))
    return index


def _search(
    shard: Shard,
    number: int,
    files: tuple[Shard, ...],
    settings: DecontaminationSettings,
    output: Path,
    folder: Path,
) -> dict[str, Any]:
    """Search and write one shard. Returns the counts."""

    def write(writer: DocumentWriter) -> None:
        index = _index(folder, files, settings)
        ids = index.table["id"].to_pylist()
        benchmarks = index.table["benchmark"].to_pylist()
        with (
            atomic_file(folder / f"matches-{number}.parquet") as partial,
            pq.ParquetWriter(partial, MATCHES) as file,
        ):
            for _, batch in numbered_batches(shard):
                matches = search(index, batch["question"], batch["response"], batch["answer"])
                if matches:
                    file.write_table(_findings(batch, matches, ids, benchmarks))
                causes = _causes(matches, ids, settings)
                is_dropped = np.isin(np.arange(len(batch)), list(causes))
                reasons = [f"contaminated_{match.grade}" for match in causes.values()]
                items = [ids[match.item] for match in causes.values()]
                writer.keep(batch.filter(pa.array(~is_dropped)))
                writer.drop(
                    batch.filter(pa.array(is_dropped)),
                    pa.array(reasons, pa.string()),
                    pa.array(items, pa.string()),
                )

    return write_document_shard(output, folder, number, write)


def _causes(
    matches: list[Match], ids: list[str], settings: DecontaminationSettings
) -> dict[int, Match]:
    """Find for each document to drop, in order, the match that is its cause."""

    def rank(match: Match) -> tuple[int, float, str]:
        return GRADES.index(match.grade), -match.coverage, ids[match.item]

    best: dict[int, Match] = {}
    for match in sorted(matches, key=rank):
        best.setdefault(match.document, match)
    return {row: best[row] for row in sorted(best) if best[row].grade in settings.remove}


def _findings(
    batch: pa.RecordBatch, matches: list[Match], ids: list[str], benchmarks: list[str]
) -> pa.Table:
    places = pa.array([match.document for match in matches])
    columns = {
        "id": pc.take(batch["id"], places),
        "source": pc.take(batch["source"], places),
        "item": [ids[match.item] for match in matches],
        "benchmark": [benchmarks[match.item] for match in matches],
        "grade": [match.grade for match in matches],
        "coverage": [match.coverage for match in matches],
    }
    return pa.table(columns, schema=MATCHES)
