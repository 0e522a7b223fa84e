"""Measure throughput and recall of deduplication and decontamination: `python -m benchmarks.curation`.

By default ten thousand documents, in about a minute. `--documents 10000 100000 1000000` gives the cost against the
number of documents (a million are 830 MB, made once with `--folder`), `--mirror <folder>` the recall on real GSM8K
questions planted among the training questions. datasketch and rensa are measured on equal rows in one run;
rensa is left out where it is not installed. `benchmarks.truth` measures recall by kind of duplicate and leak.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from datasketch import MinHash

from benchmarks.curation.corpus import corpus, original_text, table, texts_of, vocabulary
from benchmarks.curation.deduplication import WORDS, measure_deduplication, shingles
from benchmarks.curation.leaks import item_table, measure_many_copies, measure_real_leaks
from pipeline.decontaminate.settings import DecontaminationSettings
from pipeline.decontaminate.stage import decontaminate
from pipeline.dedup.minhash import signatures
from pipeline.text.words import text_column, word_blocks


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
    """Print CPU microseconds per document from raw text to signatures, of three libraries.

    Each runs on 100 rows first and then three times; datasketch, the slowest, on a twentieth of the rows.
    """
    few = texts[: max(len(texts) // 20, 1)]
    column = pa.array(texts)
    datasketch_default(texts[:100])
    paths = {"datasketch update_batch": cpu(lambda: datasketch_default(few), 3) / len(few)}
    try:
        rensa_loop(texts[:100])
        paths["rensa, n-grams in Python"] = cpu(lambda: rensa_loop(texts), 3) / len(texts)
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
