"""Find candidates for near duplicates: word n-grams -> MinHash signatures -> band hashes -> equal hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pipeline.dedup.document_table import DocumentTable
from pipeline.dedup.settings import DedupSettings
from pipeline.dedup.signing import write_bands
from pipeline.progress import Progress
from pipeline.storage.parallel import Run
from pipeline.storage.resumable import make_once, save_arrays


def find_candidates(
    table: DocumentTable, bands: Sequence[Path], settings: DedupSettings, run: Run, progress: Progress
) -> np.ndarray:
    """Find the candidates among all documents: pairs of nodes int64 [P, 2], smaller node first, sorted.

    `bands` are the band hashes of each shard that its source's signing has computed; documents without
    band hashes are signed here.
    """

    def write(path: Path) -> None:
        table.add_signed(table.files, bands)
        plans = list(_plans(table))
        signed = []
        for signed_path in run(write_bands, ((*plan, settings.signing) for plan in plans)):
            signed.append(signed_path)
            progress(0.2 + 0.4 * len(signed) / len(plans), "signatures")
        if plans:
            table.add_signed([shard for shard, *_ in plans], signed)
        table.join(settings.signing.bands)
        save_arrays(path, pairs=table.candidates())

    return np.load(make_once(table.folder / "candidates.npz", write))["pairs"]


def _plans(table: DocumentTable) -> Iterator[tuple]:
    for number, shard in enumerate(table.files):
        documents = table.unsigned(shard)
        if len(documents):
            plan = table.folder / f"signing-{number}.npz"  # a file, so that plans waiting for a worker take no memory
            save_arrays(plan, documents=documents)
            yield shard, plan, table.folder / f"bands-{number}.parquet"
