"""Measure throughput and recall of deduplication and decontamination: `python -m benchmarks.curation`.

By default ten thousand documents, in about a minute. `--documents 10000 100000 1000000` gives the cost against the
number of documents (a million are 830 MB, made once with `--folder`), `--mirror <folder>` the recall on real GSM8K
questions planted among the training questions. datasketch and rensa are measured on equal rows in one run;
rensa is left out where it is not installed. `benchmarks.truth` measures recall by kind of duplicate and leak.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasketch import MinHash

from benchmarks.curation.corpus import Corpus, corpus, original_text, table, texts_of, vocabulary
from benchmarks.curation.leaks import item_table, measure_many_copies, measure_real_leaks
from pipeline.decontaminate.settings import DecontaminationSettings
from pipeline.decontaminate.stage import decontaminate
from pipeline.dedup.minhash import signatures
from pipeline.dedup.settings import DedupSettings
from pipeline.dedup.stage import deduplicate
from pipeline.storage.documents import KEPT, read_documents
from pipeline.text.arrays import distinct, jaccard
from pipeline.text.words import text_column, word_blocks

WORDS = 5
THRESHOLD = 0.7


def cpu(work: Callable[[], object], rounds: int = 1) -> float:
    """Measure the least CPU seconds of all threads over several rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


# ---------------------------------------------------------------- signatures


def ours(texts: pa.Array) -> np.ndarray:
    """Compute signatures from raw text."""
    parts = []
    for _, words in word_blocks(text_column(texts)):
        parts.append(signatures(*words.ngrams(WORDS)))
    return np.concatenate(parts)


def shingles(text: str) -> list[str]:
    """Join word n-grams as strings, one by one in Python."""
    words = re.findall(r"\w+", text.lower())
    return [" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)]


def datasketch_default(texts: list[str]) -> None:
    """Run the usual loop: words, joined n-grams, one MinHash for each document."""
    for text in texts:
        MinHash(num_perm=128).update_batch([shingle.encode() for shingle in shingles(text)])


def rensa_loop(texts: list[str]) -> None:
    """Run rensa's R-MinHash on n-grams joined in Python."""
    from rensa import RMinHash

    for text in texts:
        RMinHash(num_perm=128, seed=1).update(shingles(text))


def measure_signatures(texts: list[str]) -> None:
    """Print CPU microseconds per document from raw text to signatures, of three libraries on equal rows."""
    few = texts[: max(len(texts) // 20, 1)]
    column = pa.array(texts)
    paths = {"datasketch update_batch": cpu(lambda: datasketch_default(few)) / len(few)}
    try:
        paths["rensa, n-grams in Python"] = cpu(lambda: rensa_loop(texts)) / len(texts)
    except ImportError:
        print("\n(rensa is not installed and left out)")
    ours(column.slice(0, 100))
    paths["pipeline.dedup.minhash"] = cpu(lambda: ours(column), 3) / len(texts)
    size = sum(map(len, texts)) / len(texts)
    base = paths["datasketch update_batch"]
    table(
        f"Signatures from raw text, {len(texts)} documents of {size:.0f} characters, 128 permutations",
        [
            {"path": name, "us/document": s * 1e6, "documents/s": int(1 / s), "MB/s": size / s / 1e6, "times": base / s}
            for name, s in paths.items()
        ],
    )


# ---------------------------------------------------------------- deduplication


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
        seconds, flagged = rensa_flags(folder / f"corpus-{sizes[-1]}")
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


# ---------------------------------------------------------------- decontamination


def measure_decontamination(folder: Path, documents: int, items: int) -> None:
    """Print the cost of the stage on clean documents, with items of 12 to 60 words of which one in fifty is planted."""
    place = corpus(folder, documents).folder
    draw = np.random.default_rng(5)
    words = vocabulary(np.random.default_rng(0))
    texts = [text for text, _ in zip(texts_of(place), range(2000), strict=False)]
    questions = [
        " ".join(texts[i % len(texts)].split()[:40])
        if i % 50 == 0
        else " ".join(original_text(draw, words)[: draw.integers(12, 60)])
        for i in range(items)
    ]
    megabytes = corpus(folder, documents).characters / 1e6
    results: dict = {}
    seconds = cpu(
        lambda: results.update(
            decontaminate(place, folder / "decontaminated", item_table(questions), DecontaminationSettings())
        )
    )
    found = results["matches"].get("planted", {})
    table(
        f"Decontamination, {documents} documents, {items} items",
        [{"CPU s": seconds, "us/document": seconds / documents * 1e6, "MB/s": megabytes / seconds, **found}],
    )
    shutil.rmtree(folder / "decontaminated")


def main() -> None:
    """Run all measurements with the sizes of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curation", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--documents", type=int, nargs="+", default=[2_000, 10_000], help="sizes of the synthetic corpus"
    )
    parser.add_argument("--searched", type=int, default=10_000, help="documents to decontaminate")
    parser.add_argument("--items", type=int, default=1_000, help="benchmark items to look for in them")
    parser.add_argument("--mirror", type=Path, help="a mirror with openai/gsm8k, for real questions")
    parser.add_argument("--folder", type=Path, help="where the corpora stay for another run; else they are temporary")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="curation-") as temporary:
        folder = arguments.folder or Path(temporary)
        measure_deduplication(folder, sorted(arguments.documents))
        place = corpus(folder, max(arguments.documents)).folder
        measure_signatures([text for text, _ in zip(texts_of(place), range(20_000), strict=False)])
        measure_decontamination(folder, arguments.searched, arguments.items)
        if arguments.mirror:
            measure_real_leaks(Path(temporary), arguments.mirror)
            measure_many_copies(Path(temporary), arguments.mirror)


if __name__ == "__main__":
    main()
