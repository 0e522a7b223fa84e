"""Measure the cost of deduplication and what it merges; decides whether a change of the stage is
kept.

    python -m benchmarks.curation.deduplication [--documents 10000 60000] [--folder FOLDER]

A million documents are 830 MB, made once with `--folder`.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.curation.corpus import Corpus, corpus, texts_of
from benchmarks.tables import print_table
from dreamer_study.pipeline.dedup.deduplicate import deduplicate
from dreamer_study.pipeline.dedup.settings import DedupSettings
from dreamer_study.pipeline.storage.documents import KEPT, read_documents
from dreamer_study.pipeline.text.arrays import distinct, jaccard
from dreamer_study.pipeline.text.words import text_column, word_blocks

SETTINGS = DedupSettings()
BORDERS = (0.0, 0.6, SETTINGS.threshold, 0.8, 0.9, 1.01)  # of ranges of similarity


def measure(known: Corpus, output: Path) -> dict[str, Any]:
    """Deduplicate a corpus; a row of costs, and the documents found."""
    # so that peak memory is the stage's own
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        stages, results, peak = fresh.submit(deduplicate_alone, known.folder, output).result()
    seconds, documents = sum(stages.values()), sum(row["documents"] for row in results["counts"])
    return {
        "documents": documents,
        "MB": known.characters / 1e6,
        **{f"{stage} s": value for stage, value in stages.items()},
        "CPU s": seconds,
        "us/document": seconds / documents * 1e6,
        "MB/s": known.characters / seconds / 1e6,
        "peak MB": peak / 1e6,
        "candidates": results["candidates"],
        "near": results["verified"],
        "found": sum(row["documents"] for row in results["counts"] if row["reason"] != KEPT),
    }


def deduplicate_alone(folder: Path, output: Path) -> tuple[dict[str, float], dict[str, Any], int]:
    """Deduplicate in a process of its own: CPU seconds by step, results, and peak memory in
    bytes."""
    import pandas  # noqa: F401 (DuckDB imports it when first used, which is none of the stage's work)

    spent: dict[str, float] = {}
    last = time.process_time()

    def progress(_: float, stage: str) -> None:
        nonlocal last
        now = time.process_time()
        spent[stage] = spent.get(stage, 0.0) + now - last
        last = now

    results = deduplicate([folder], output, SETTINGS, progress=progress)
    progress(1.0, "writing")
    return spent, results, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fate_of_pairs(known: Corpus, output: Path) -> list[dict[str, object]]:
    """Count, by kind of pair and range of similarity, the planted pairs and which of them were
    merged."""
    ids, sizes = [], [np.zeros(1, np.int64)]
    for _, words in word_blocks(text_column(pa.array(texts_of(known.folder)))):
        grams, offsets = distinct(*words.ngrams(SETTINGS.words))
        ids.append(grams)
        sizes.append(np.diff(offsets))
    flat, offsets = np.concatenate(ids), np.cumsum(np.concatenate(sizes))
    survivor = np.arange(len(offsets) - 1)
    for batch in read_documents(output, kind="dropped", columns=["row", "because"]):
        causes = [
            int(because.removeprefix("synthetic:")) for because in batch["because"].to_pylist()
        ]
        survivor[batch["row"].to_numpy()] = causes
    rows = []
    for kind, pairs in known.pairs.items():
        similarity = jaccard(flat, offsets, pairs[:, 0], pairs[:, 1])
        merged = survivor[pairs[:, 0]] == survivor[pairs[:, 1]]
        for low, high in pairwise(BORDERS):
            inside = (similarity >= low) & (similarity < high)
            if inside.any():
                share = f"{100 * merged[inside].mean():.2f} %"
                rows.append(
                    {
                        "kind": kind,
                        "similarity from": low,
                        "pairs": inside.sum(),
                        "taken for one": share,
                    }
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--documents", type=int, nargs="+", default=[60_000], help="sizes of the synthetic corpus"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the corpora stay for another run; else they are temporary",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="deduplication-") as temporary:
        costs = []
        for documents in sorted(options.documents):
            known, output = (
                corpus(options.folder or Path(temporary), documents),
                Path(temporary) / "output",
            )
            costs.append(measure(known, output))
            if documents <= 200_000:
                print_table(
                    "Pairs that were planted, by their exact similarity",
                    fate_of_pairs(known, output),
                )
            shutil.rmtree(output)
        print_table("Deduplication, read to written, one process", costs)


if __name__ == "__main__":
    main()
