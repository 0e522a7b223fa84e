"""Throughput and recall of deduplication and decontamination, as tables: `python benchmarks/curation.py`.

By default some ten thousand documents, in about a minute. `--documents 10000 100000 1000000` gives the cost against the
number of documents, `--mirror <folder>` the recall on real GSM8K questions planted among the training questions.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasketch import MinHash

sys.path.insert(0, str(Path(__file__).parent))
from corpus import original_text, texts_of, vocabulary, write_corpus

from pipeline.decontaminate import DecontaminationSettings, decontaminate
from pipeline.dedup import DedupSettings, deduplicate
from pipeline.documents import SCHEMA, DocumentWriter, read_documents
from pipeline.download import find_split, read_source
from pipeline.minhash import signatures
from pipeline.ngrams import blocks, text_column
from pipeline.ragged import distinct, jaccard
from pipeline.sources import resolve_source
from pipeline.traces import strip_traces
from pipeline.worlds import WORLD_SOURCE, WorldSettings, world_items, write_world

WORDS = 5
THRESHOLD = 0.7


def table(title: str, rows: list[dict[str, object]]) -> None:
    """Print rows with equal keys as aligned columns."""
    cells = [list(rows[0])] + [[f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def cpu(work: Callable[[], object], rounds: int = 1) -> float:
    """Least CPU seconds of all threads over some rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


# ---------------------------------------------------------------- signatures


def ours(texts: pa.Array) -> np.ndarray:
    """Signatures from raw text."""
    parts = []
    for _, _, words in blocks(text_column(texts)):
        parts.append(signatures(*words.ngrams(WORDS)))
    return np.concatenate(parts)


def datasketch_default(texts: list[str]) -> None:
    """The usual loop: words, joined n-grams, one MinHash for each document."""
    for text in texts:
        words = re.findall(r"\w+", text.lower())
        minhash = MinHash(num_perm=128)
        minhash.update_batch([" ".join(words[i : i + WORDS]).encode() for i in range(len(words) - WORDS + 1)])


def rensa_loop(texts: list[str]) -> None:
    """rensa's R-MinHash, with the same n-grams made in Python."""
    from rensa import RMinHash

    for text in texts:
        words = re.findall(r"\w+", text.lower())
        minhash = RMinHash(num_perm=128, seed=1)
        minhash.update([" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)])


def measure_signatures(texts: list[str]) -> None:
    """Raw text to signatures, CPU microseconds for each document, on the same rows."""
    few = texts[: max(len(texts) // 20, 1)]
    column = pa.array(texts)
    paths = {"datasketch update_batch": cpu(lambda: datasketch_default(few)) / len(few)}
    try:
        paths["rensa, n-grams in Python"] = cpu(lambda: rensa_loop(texts)) / len(texts)
    except ImportError:
        print("\n(rensa is not installed and left out)")
    ours(column.slice(0, 100))
    paths["pipeline.minhash"] = cpu(lambda: ours(column), 3) / len(texts)
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
    """The whole stage on corpora with known pairs: cost, and what became of pairs by their exact similarity."""
    costs = []
    for documents in sizes:
        corpus = write_corpus(folder / f"corpus-{documents}", documents)
        output = folder / "deduplicated"
        started, results = time.perf_counter(), {}
        seconds = cpu(lambda c=corpus, o=output, r=results: r.update(deduplicate([c.folder], o, DedupSettings())))
        costs.append(
            {
                "documents": documents,
                "MB": corpus.characters / 1e6,
                "CPU s": seconds,
                "wall s": time.perf_counter() - started,
                "us/document": seconds / documents * 1e6,
                "candidates": results["candidates"],
                "verified": results["verified"],
                "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
            }
        )
        if documents == sizes[-1] and documents <= 200_000:
            table(
                "Pairs that were planted, by their exact similarity", fate_of_pairs(corpus.folder, corpus.pairs, output)
            )
        shutil.rmtree(output)
    table("Deduplication, read to written", costs)


def fate_of_pairs(folder: Path, pairs: dict[str, np.ndarray], output: Path) -> list[dict[str, object]]:
    """For each kind of pair and range of similarity, how many there are and how many were taken for one document."""
    texts = pa.array(list(texts_of(folder)))
    ids, sizes = [], [np.zeros(1, np.int64)]
    for _, _, words in blocks(text_column(texts)):
        grams, offsets = distinct(*words.ngrams(WORDS))
        ids.append(grams)
        sizes.append(np.diff(offsets))
    flat, offsets = np.concatenate(ids), np.cumsum(np.concatenate(sizes))
    survivor = np.arange(len(texts))
    for batch in read_documents(output, kind="dropped", columns=["row", "because"]):
        causes = [int(because.removeprefix("synthetic:")) for because in batch["because"].to_pylist()]
        survivor[batch["row"].to_numpy()] = causes
    rows = []
    for kind, both in pairs.items():
        similarity = jaccard(flat, offsets, both[:, 0], both[:, 1])
        one = survivor[both[:, 0]] == survivor[both[:, 1]]
        for low, high in ((0.0, 0.6), (0.6, THRESHOLD), (THRESHOLD, 0.8), (0.8, 0.9), (0.9, 1.01)):
            some = (similarity >= low) & (similarity < high)
            if some.any():
                share = f"{100 * one[some].mean():.2f} %"
                rows.append(
                    {
                        "kind": kind,
                        "similarity": f"{low}-{min(high, 1.0)}",
                        "pairs": int(some.sum()),
                        "taken for one": share,
                    }
                )
    return rows


# ---------------------------------------------------------------- decontamination


def measure_decontamination(folder: Path, documents: int, items: int) -> None:
    """Cost of the stage on clean documents, with items of 12 to 60 words of which one in fifty is planted."""
    corpus = folder / f"corpus-{documents}"
    draw = np.random.default_rng(5)
    words = vocabulary(np.random.default_rng(0))
    texts = [text for text, _ in zip(texts_of(corpus), range(2000), strict=False)]
    questions = [
        " ".join(texts[i % len(texts)].split()[:40])
        if i % 50 == 0
        else " ".join(original_text(draw, words)[: draw.integers(12, 60)])
        for i in range(items)
    ]
    results: dict = {}
    seconds = cpu(
        lambda: results.update(
            decontaminate(corpus, folder / "decontaminated", item_table(questions), DecontaminationSettings())
        )
    )
    found = results["matches"].get("planted", {})
    table(
        f"Decontamination, {documents} documents, {items} items",
        [{"CPU s": seconds, "us/document": seconds / documents * 1e6, **found}],
    )
    shutil.rmtree(folder / "decontaminated")


def item_table(questions: list[str], answers: list[str] | None = None) -> pa.Table:
    """Benchmark items in the stage's form."""
    return pa.table(
        {
            "id": [f"planted/{i}" for i in range(len(questions))],
            "benchmark": ["planted"] * len(questions),
            "question": questions,
            "answer": answers or [""] * len(questions),
        }
    )


def measure_real_leaks(folder: Path, mirror: Path) -> None:
    """GSM8K test questions, edited, inside training questions: the share found in each grade."""

    def read(split: str) -> list[dict[str, str]]:
        with gzip.open(mirror / f"openai/gsm8k/main/{split}.jsonl.gz", "rt") as file:
            return [json.loads(line) for line in file]

    train, test = read("train"), read("test")
    draw = random.Random(0)
    words = [word for row in train for word in row["question"].split() if word.isalpha()]

    def reworded(every: int) -> Callable[[str], str]:
        def edit(text: str) -> str:
            pieces = text.split()
            for place in draw.sample(range(len(pieces)), max(1, len(pieces) // every)):
                pieces[place] = draw.choice(words)
            return " ".join(pieces)

        return edit

    edits: dict[str, Callable[[str], str]] = {
        "verbatim": lambda text: text,
        "spacing": lambda text: re.sub(" ", lambda _: draw.choice([" ", "  ", "\n"]), text),
        "case": lambda text: draw.choice([str.upper, str.lower, str.title])(text),
        "LaTeX": lambda text: re.sub(r"\d[\d,.]*\d|\d", lambda m: f"${m[0]}$", text),
        "a word in twelve": reworded(12),
        "a word in four": reworded(4),
        "numbers": lambda text: re.sub(r"\d+", lambda m: str(int(m[0]) + draw.randint(1, 9)), text),
    }
    rows = [(row["question"], row["answer"].split("####")[0], "none") for row in train]
    for name, edit in edits.items():
        for row in test:
            host = draw.choice(train)
            rows.append((f"{host['question']} {edit(row['question'])}", host["answer"].split("####")[0], name))
    with DocumentWriter(folder / "leaks") as writer:
        documents = [
            {"id": str(i), "source": name, "row": i, "question": question, "response": response, "answer": ""}
            for i, (question, response, name) in enumerate(rows)
        ]
        writer.keep(pa.Table.from_pylist(documents, schema=SCHEMA))
    items = item_table([row["question"] for row in test], [row["answer"] for row in test])
    decontaminate(folder / "leaks", folder / "found", items, DecontaminationSettings())
    grades: dict[str, str] = {}
    for row in pq.read_table(folder / "found" / "matches.parquet").to_pylist():
        grades[row["id"]] = min(grades.get(row["id"], "template"), row["grade"])  # exact < overlap < template
    report = []
    for name in ("none", *edits):
        ids = [str(i) for i, row in enumerate(rows) if row[2] == name]
        shares = {
            g: f"{100 * sum(grades.get(i) == g for i in ids) / len(ids):.2f} %"
            for g in ("exact", "overlap", "template")
        }
        report.append({"edit": name, "documents": len(ids), **shares})
    table("GSM8K test questions inside GSM8K training questions", report)


# ---------------------------------------------------------------- the built-in world


def measure_world(folder: Path, documents: int) -> None:
    """What became of everything the built-in world does wrong on purpose, and of what it does right."""
    leaks = ("verbatim", "spacing", "case", "punctuation", "phrase", "latex", "name", "word")
    mirror = folder / "world"
    write_world(mirror, WorldSettings(documents=documents, leak_edits=leaks))
    source = resolve_source(WORLD_SOURCE)
    read_source(source, find_split(mirror / source.repository, "default", "train"), folder / "read")
    strip_traces(folder / "read", folder / "stripped")
    deduplicate([folder / "stripped"], folder / "unique", DedupSettings())
    decontaminate(folder / "unique", folder / "curated", world_items(mirror), DecontaminationSettings())
    kept = {row for batch in read_documents(folder / "curated") for row in batch["row"].to_pylist()}
    reasons = {
        row: reason
        for stage in ("read", "stripped", "unique", "curated")
        for batch in read_documents(folder / stage, kind="dropped", columns=["row", "reason"])
        for row, reason in zip(batch["row"].to_pylist(), batch["reason"].to_pylist(), strict=True)
    }
    groups: dict[tuple[str, str], list[bool]] = {}
    with (mirror / "truth.jsonl").open() as file:
        for line in file:
            entry = json.loads(line)
            row, kind = entry["row"], entry["kind"]
            if kind in ("exact", "near"):
                right = row not in kept or entry["of"] not in kept
            elif kind == "leak":
                right = row not in kept
            elif kind in ("clean", "numbers"):
                right = not reasons.get(row, "kept").startswith(("contaminated", "near")) or kind == "clean"
                right &= not reasons.get(row, "kept").startswith("contaminated")
            else:
                continue
            groups.setdefault((kind, entry["edit"] or ""), []).append(right)
    table(
        f"The built-in world, {documents} documents: duplicates and leaks removed, the rest left in",
        [
            {"kind": kind, "edit": edit, "rows": len(rights), "right": f"{100 * sum(rights) / len(rights):.2f} %"}
            for (kind, edit), rights in sorted(groups.items())
        ],
    )


def main() -> None:
    """Run everything, or what the arguments leave of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--documents", type=int, nargs="+", default=[2_000, 10_000], help="sizes of the synthetic corpus"
    )
    parser.add_argument("--items", type=int, default=1_000, help="benchmark items to look for in the largest corpus")
    parser.add_argument("--world", type=int, default=5_000, help="documents of the built-in world")
    parser.add_argument("--mirror", type=Path, help="a mirror with openai/gsm8k, for real questions")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="curation-") as temporary:
        folder = Path(temporary)
        measure_deduplication(folder, sorted(arguments.documents))
        largest = max(arguments.documents)
        texts = [text for text, _ in zip(texts_of(folder / f"corpus-{largest}"), range(20_000), strict=False)]
        measure_signatures(texts)
        measure_decontamination(folder, largest, arguments.items)
        measure_world(folder, arguments.world)
        if arguments.mirror:
            measure_real_leaks(folder, arguments.mirror)


if __name__ == "__main__":
    main()
