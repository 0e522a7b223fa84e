"""Measure deduplication on a corpus with known pairs: its cost, what it merges, and rensa on equal documents.

A module of its own: a new process cannot import functions of `__main__`.
"""

from __future__ import annotations

import re
import resource
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.curation.corpus import Corpus, corpus, place_of, table, texts_of
from pipeline.dedup.settings import DedupSettings
from pipeline.dedup.stage import deduplicate
from pipeline.storage.documents import KEPT, read_documents
from pipeline.text.arrays import distinct, jaccard
from pipeline.text.words import text_column, word_blocks

WORDS = 5
THRESHOLD = 0.7


def shingles(text: str) -> list[str]:
    """Join word n-grams as strings, one by one in Python."""
    words = re.findall(r"\w+", text.lower())
    return [" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)]


def measure_deduplication(folder: Path, sizes: list[int]) -> None:
    """Print the cost of the whole stage on corpora with known pairs, and which pairs were merged, by similarity."""
    costs = []
    for documents in sizes:
        known = corpus(folder, documents)
        output = folder / "deduplicated"
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:  # so that peak memory is the stage's own
            stages, results, peak = fresh.submit(deduplicate_alone, known.folder, output).result()
        seconds = sum(stages.values())
        costs.append(
            {
                "documents": documents,
                "MB": known.characters / 1e6,
                **{f"{stage} s": value for stage, value in stages.items()},
                "CPU s": seconds,
                "us/document": seconds / documents * 1e6,
                "MB/s": known.characters / seconds / 1e6,
                "peak MB": peak / 1e6,
                "candidates": results["candidates"],
                "near": results["verified"],
            }
        )
        if documents == sizes[-1] and documents <= 200_000:
            table("Pairs that were planted, by their exact similarity", fate_of_pairs(known, output))
        shutil.rmtree(output)
    table("Deduplication, read to written, one process", costs)
    try:
        seconds, flagged = rensa_flags(place_of(folder, sizes[-1]))
    except ImportError:
        print("\n(rensa is not installed and left out)")
        return
    ours = costs[-1]["CPU s"]
    found = sum(row["documents"] for row in results["counts"] if row["reason"] != KEPT)
    table(
        f"The same {sizes[-1]} documents",
        [
            {"path": "pipeline.dedup, all of it", "CPU s": ours, "times": 1.0, "found": found},
            {"path": "rensa, flags only", "CPU s": seconds, "times": seconds / ours, "found": flagged},
        ],
    )


def deduplicate_alone(folder: Path, output: Path) -> tuple[dict[str, float], dict[str, Any], int]:
    """Deduplicate in a process of its own: CPU seconds by step, results, and peak memory in bytes."""
    import pandas  # noqa: F401 (DuckDB imports it when first used, which is none of the stage's work)

    spent: dict[str, float] = {}
    last = time.process_time()

    def progress(_: float, stage: str) -> None:
        nonlocal last
        now = time.process_time()
        spent[stage] = spent.get(stage, 0.0) + now - last
        last = now

    results = deduplicate([folder], output, DedupSettings(), progress=progress)
    progress(1.0, "writing")
    return spent, results, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rensa_flags(folder: Path) -> tuple[float, int]:
    """Flag documents with near duplicates by rensa's fastest exact call: CPU seconds, and how many are flagged.

    Nothing is verified, grouped or written.
    """
    from rensa import RMinHash, RMinHashLSH

    started = time.process_time()
    index, texts, flagged = RMinHashLSH(threshold=THRESHOLD, num_perm=128, num_bands=16), texts_of(folder), 0
    for first in count(0, 10_000):
        batch = [shingles(text) for text in islice(texts, 10_000)]
        if not batch:
            return time.process_time() - started, flagged
        flags = index.insert_matrix_and_query_duplicate_flags(
            RMinHash.digest_matrix_from_token_sets(batch, 128, 1), first
        )
        flagged += sum(flags)
    raise AssertionError


def fate_of_pairs(known: Corpus, output: Path) -> list[dict[str, object]]:
    """Count, by kind of pair and range of similarity, the planted pairs and which of them were merged."""
    texts = pa.array(list(texts_of(known.folder)))
    ids, sizes = [], [np.zeros(1, np.int64)]
    for _, words in word_blocks(text_column(texts)):
        grams, offsets = distinct(*words.ngrams(WORDS))
        ids.append(grams)
        sizes.append(np.diff(offsets))
    flat, offsets = np.concatenate(ids), np.cumsum(np.concatenate(sizes))
    survivor = np.arange(len(texts))
    for batch in read_documents(output, kind="dropped", columns=["row", "because"]):
        causes = [int(because.removeprefix("synthetic:")) for because in batch["because"].to_pylist()]
        survivor[batch["row"].to_numpy()] = causes
    rows = []
    for kind, both in known.pairs.items():
        similarity = jaccard(flat, offsets, both[:, 0], both[:, 1])
        one = survivor[both[:, 0]] == survivor[both[:, 1]]
        for low, high in ((0.0, 0.6), (0.6, THRESHOLD), (THRESHOLD, 0.8), (0.8, 0.9), (0.9, 1.01)):
            inside = (similarity >= low) & (similarity < high)
            if inside.any():
                merged = f"{100 * one[inside].mean():.2f} %"
                rows.append(
                    {
                        "kind": kind,
                        "similarity": f"{low}-{min(high, 1.0)}",
                        "pairs": int(inside.sum()),
                        "taken for one": merged,
                    }
                )
    return rows
