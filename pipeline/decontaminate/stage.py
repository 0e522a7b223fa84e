"""Decontamination: documents that contain items of the study's benchmarks are removed, and each finding is recorded.

What counts as containing is in `overlap.py`. By default the grades `exact` and `overlap` are removed; `template` (the
same wording with other numbers) is counted and listed, and removed on demand.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.decontaminate.overlap import Index, Match
from pipeline.decontaminate.passages import GRADES, Rules
from pipeline.errors import InputError
from pipeline.progress import quiet
from pipeline.storage.documents import KEPT, SCHEMA, DocumentWriter, count_documents, sum_counts
from pipeline.storage.numbered_shards import Shard, find_shards, numbered_batches, sample_row_groups
from pipeline.storage.parallel import workers
from pipeline.storage.resumable import make_once, resumable_parts, save_arrays, write_document_shard
from pipeline.text.ngrams import text_column

REASONS = {grade: f"contaminated_{grade}" for grade in GRADES}
ITEM_COLUMNS = ("id", "benchmark", "question", "answer")
MATCHES = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("item", pa.string()),
        ("benchmark", pa.string()),
        ("grade", pa.string()),
        ("coverage", pa.float64()),
    ]
)


@dataclass(frozen=True)
class DecontaminationSettings:
    """When a document counts as containing a benchmark item.

    `remove` names the grades to drop documents for. Grade overlap: the document holds `long_coverage` of the item's
    n-grams of `long_words` words or `short_coverage` of those of `short_words`, and at least `numbers_kept` of the
    item's numbers with the same neighbours are the same. Grade template: as much, but for the numbers, or
    `template_coverage` of the short n-grams with all numbers equal. For either, `particular_coverage` of the short
    n-grams with all numbers equal has to be found among those that at most `common_share` of a sample of `sample`
    documents hold (or at most `common_documents`). Items of fewer than `shortest` words match only as the whole
    question; answers are searched too from `shortest_answer` words on.
    """

    remove: tuple[str, ...] = ("exact", "overlap")
    long_words: int = 8
    long_coverage: float = 0.3
    short_words: int = 5
    short_coverage: float = 0.35
    template_coverage: float = 0.6
    particular_coverage: float = 0.25
    numbers_kept: float = 0.5
    shortest: int = 8
    shortest_answer: int = 16
    sample: int = 20_000
    common_share: float = 0.001
    common_documents: int = 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "remove", tuple(self.remove))
        unknown = set(self.remove) - set(GRADES)
        if unknown:
            raise InputError(f"decontaminate: remove={list(self.remove)}: choose from {', '.join(GRADES)}")
        if not 1 <= self.short_words <= self.long_words <= self.shortest <= self.shortest_answer:
            raise InputError(
                f"decontaminate: short_words={self.short_words}, long_words={self.long_words}, "
                f"shortest={self.shortest}, shortest_answer={self.shortest_answer}: each has to be at least 1 and at "
                "least the one before"
            )
        shares = ("long_coverage", "short_coverage", "template_coverage", "particular_coverage", "numbers_kept")
        for name in (*shares, "common_share"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"decontaminate: {name}={getattr(self, name)}: need 0 < {name} <= 1")

    @property
    def rules(self) -> Rules:
        """The part of these settings that the index needs."""
        return Rules(
            self.long_words,
            self.long_coverage,
            self.short_words,
            self.short_coverage,
            self.template_coverage,
            self.particular_coverage,
            self.numbers_kept,
            self.shortest,
            self.shortest_answer,
        )


def decontaminate(
    source: Path,
    output: Path,
    items: pa.Table,
    settings: DecontaminationSettings,
    *,
    processes: int = 1,
    progress: Callable[[float, str], None] = quiet,
) -> dict[str, Any]:
    """Remove documents that contain benchmark items; `items` has the columns id, benchmark, question, answer.

    Writes `documents/`, `dropped/` (reason `contaminated_<grade>`, because: the item's id) and `matches.parquet`, every
    finding of every grade (id, source, item, benchmark, grade, coverage), under `output`. Among several items the one
    of the better grade, then the higher coverage, then the smaller id is the cause. A shard of which nothing is removed
    is passed on as it is, as a hard link where there are such. The result does not depend on the number of processes; a
    stage that was killed goes on from its finished shards.

    Returns "counts", "matches" (documents by benchmark and best grade), "items_found" (items by benchmark and grade),
    "items", "short_items" (match only whole) and "templated_items" (can be found exact only).
    Raises InputError when columns of `items` are missing, for a shard that cannot be read and for a full disk.
    """
    missing = [name for name in ITEM_COLUMNS if name not in items.column_names]
    if missing:
        raise InputError(
            f"decontaminate: benchmark items lack {', '.join(missing)}; found {', '.join(items.column_names)}"
        )
    output = Path(output)
    items = items.select(ITEM_COLUMNS)
    files = tuple(find_shards([source]))
    made_from = [asdict(settings), _digest(items)]
    with resumable_parts(output, made_from, files) as folder, workers(processes) as run, ExitStack() as stack:
        stack.callback(_index.cache_clear)
        make_once(folder / "items.parquet", lambda path: pq.write_table(items, path))
        index = _index(folder, files, settings)
        matched: Counter[tuple[str, str]] = Counter()
        found: dict[tuple[str, str], set[int]] = defaultdict(set)
        counts = []
        with pq.ParquetWriter(output / "matches.parquet", MATCHES) as matches:
            tasks = ((shard, number, files, settings, output, folder) for number, shard in enumerate(files))
            for done, shard in enumerate(run(_search, tasks)):
                counts += [shard["counts"], shard["results"]["passed"]]
                for benchmark, grade, documents, found_items in shard["results"]["found"]:
                    matched[benchmark, grade] += documents
                    found[benchmark, grade].update(found_items)
                matches.write_table(pq.read_table(folder / f"matches-{done}.parquet"))
                progress((done + 1) / len(files), "comparing with benchmarks")
    return {
        "counts": sum_counts(counts),
        "matches": _table(matched),
        "items_found": _table({key: len(value) for key, value in found.items()}),
        "items": len(items),
        "short_items": len(items) - int((index.searched & index.question).sum()),
        "templated_items": index.templated,
    }


def _digest(items: pa.Table) -> str:
    """One value for the content of the items."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, items.schema) as stream:
        stream.write_table(items.combine_chunks())
    return blake2b(sink.getvalue(), digest_size=16).hexdigest()


@lru_cache(1)
def _index(folder: Path, files: tuple[Shard, ...], settings: DecontaminationSettings) -> Index:
    """The index of the items in `folder`, settled: made once in each process, counted once in all."""
    items = pq.read_table(folder / "items.parquet", columns=["question", "answer"])
    index = Index(items["question"].combine_chunks(), items["answer"].combine_chunks(), settings.rules)
    sample = list(sample_row_groups(files, settings.sample))

    def count(path: Path) -> None:
        for shard, rows, _ in sample:
            for _, batch in numbered_batches(shard, ["question", "response"], rows=rows):
                index.count(text_column(batch["question"], batch["response"]))
        index.leave_out_copies()
        save_arrays(path, frequencies=index.frequencies)

    with np.load(make_once(folder / "frequencies.npz", count)) as counted:
        index.frequencies = counted["frequencies"]
    sampled = sum(size for _, _, size in sample)
    index.settle(max(settings.common_documents, int(settings.common_share * sampled)))
    return index


def _search(
    shard: Shard,
    number: int,
    files: tuple[Shard, ...],
    settings: DecontaminationSettings,
    output: Path,
    folder: Path,
) -> dict[str, Any]:
    """Search and write one shard, or pass it on as it is where nothing is removed.

    Results: "found", benchmark, grade, documents with it as their best, items found by it; "passed", the counts of a
    shard passed on.
    """

    def write(writer: DocumentWriter) -> dict[str, Any]:
        index = _index(folder, files, settings)
        items = pq.read_table(folder / "items.parquet", columns=["id", "benchmark"])
        ids, benchmarks = items["id"].to_pylist(), items["benchmark"].to_pylist()
        documents: Counter[tuple[str, str]] = Counter()
        found: dict[tuple[str, str], set[int]] = defaultdict(set)
        passed: list[dict[str, Any]] = []  # counts of documents that are passed on with their shard as it is
        whole = pq.read_schema(shard.path).equals(SCHEMA)
        with pq.ParquetWriter(folder / f"matches-{number}.parquet", MATCHES) as matches:
            for done, (_, batch) in enumerate(numbered_batches(shard)):
                best: dict[int, Match] = {}
                everything = list(index.search(batch["question"], batch["response"]))
                for match in everything:
                    known = best.get(match.document)
                    if known is None or _order(match, ids) < _order(known, ids):
                        best[match.document] = match
                    found[benchmarks[match.item], match.grade].add(match.item)
                if everything:
                    matches.write_table(_rows(batch, everything, ids, benchmarks))
                documents.update((benchmarks[match.item], match.grade) for match in best.values())
                causes = [match for match in best.values() if match.grade in settings.remove]
                if causes and whole:  # what came before is read again, to be written
                    whole, passed = False, []
                    for _, clean in islice(numbered_batches(shard), done):
                        writer.keep(clean)
                if whole:
                    passed = sum_counts([passed, count_documents(batch, KEPT)])
                else:
                    _split(writer, batch, causes, ids)
        if passed:
            _link(shard.path, writer.folder / "documents" / shard.path.name)
        results = [(*key, documents[key], sorted(items)) for key, items in sorted(found.items())]
        return {"passed": passed, "found": results}

    return write_document_shard(output, folder, number, write)


def _order(match: Match, ids: list[str]) -> tuple[int, float, str]:
    return GRADES.index(match.grade), -match.coverage, ids[match.item]


def _split(writer: DocumentWriter, batch: pa.RecordBatch, causes: list[Match], ids: list[str]) -> None:
    if not causes:
        writer.keep(batch)
        return
    gone = np.zeros(len(batch), bool)
    gone[[match.document for match in causes]] = True
    writer.keep(batch.filter(pa.array(~gone)))
    causes = sorted(causes, key=lambda match: match.document)
    reasons = pa.array([REASONS[match.grade] for match in causes], pa.string())
    writer.drop(batch.filter(pa.array(gone)), reasons, pa.array([ids[match.item] for match in causes], pa.string()))


def _link(source: Path, target: Path) -> None:
    """The same file under another name; a copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _rows(batch: pa.RecordBatch, found: list[Match], ids: list[str], benchmarks: list[str]) -> pa.Table:
    places = pa.array([match.document for match in found])
    return pa.table(
        {
            "id": pc.take(batch["id"], places),
            "source": pc.take(batch["source"], places),
            "item": [ids[match.item] for match in found],
            "benchmark": [benchmarks[match.item] for match in found],
            "grade": [match.grade for match in found],
            "coverage": [match.coverage for match in found],
        },
        schema=MATCHES,
    )


def _table(counts: Any) -> dict[str, dict[str, int]]:
    """{benchmark: {grade: number}} with every grade."""
    benchmarks = sorted({benchmark for benchmark, _ in counts})
    return {b: {grade: int(counts.get((b, grade), 0)) for grade in GRADES} for b in benchmarks}
