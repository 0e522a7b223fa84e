"""Measure decontamination on problems that look alike: `python -m benchmarks.truth.lookalikes --mirror <folder>`.

Items of real benchmarks are planted as copies, which must be found, and as other problems of like wording, which must
stay. Real training rows of the mirror show what is removed of natural neighbours; `--read 50` prints such pairs, to be
judged by eye.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.curation.corpus import table
from benchmarks.curation.leaks import item_table
from benchmarks.truth.restyling import COPIES, EXCHANGES, FIGURE, OTHERS, without_annotations
from pipeline.benchmarks.items import benchmark_items
from pipeline.benchmarks.table import resolve_benchmark
from pipeline.decontaminate.settings import DecontaminationSettings
from pipeline.decontaminate.stage import decontaminate
from pipeline.storage.documents import SCHEMA, DocumentWriter, read_documents

BENCHMARKS = ("gsm8k", "mathqa", "mmlu_math")

EDITED_FROM = 8  # words: a word exchanged in a shorter item makes another problem as often as not


@dataclass(frozen=True)
class Document:
    """One planted or natural document: kind, and the id of the item that a planted one was made from."""

    kind: str
    question: str
    response: str = "Some."
    item: str = ""


def rows(mirror: Path, name: str) -> list[dict[str, str]]:
    """Read all rows of one gzipped file of JSON lines."""
    with gzip.open(mirror / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def all_items(mirror: Path, draw: random.Random) -> pa.Table:
    """Read the items of the mirror's benchmarks, and declare a part of two other sets to be items."""
    tables = []
    for name in BENCHMARKS:
        benchmark = resolve_benchmark(name)
        tables.append(benchmark_items(benchmark, mirror / benchmark.repository))
    svamp = [f"{row['Body']}. {row['Question']}" for row in rows(mirror, "svamp/svamp/default/train")]
    deepmind = [row["question"] for row in rows(mirror, "deepmind/mathematics/default/train")]
    for name, questions in (("svamp", svamp[:500]), ("deepmind", draw.sample(deepmind, 500))):
        made = item_table(questions).to_pydict()
        made |= {"benchmark": [name] * len(questions), "id": [f"{name}/{i}" for i in range(len(questions))]}
        tables.append(pa.table(made))
    return pa.concat_tables(tables, promote_options="default")


def planted(items: list[dict[str, str]], solutions: dict[str, str], each: int) -> Iterator[Document]:
    """Make `each` documents of every kind from random items."""
    draw = random.Random(0)
    for kind, edit in (COPIES | OTHERS).items():
        made, least = 0, EDITED_FROM if kind in EXCHANGES else 1
        for item in draw.sample(items, len(items)):
            if len(item["question"].split()) < least:
                continue
            edited = edit(draw, item["question"], draw.choice(items)["question"])
            if kind == "verbatim" or edited not in ("", item["question"]):
                options = draw.sample(item["options"].split("\n"), item["options"].count("\n") + 1)
                yield Document(kind, edited, lettered(options if kind in COPIES else []) or "Some.", item["id"])
                made += 1
            if made == each:
                break
    for item in draw.sample(sorted(solutions), min(each, len(solutions))):
        yield Document("solution", "Explain this.", solutions[item], item)
        yield Document("solution, annotations removed", "", without_annotations(solutions[item]), item)
    generic = [item for item in items if item["options"] and len(item["question"].split()) < 10]
    for item in (item for item in generic if not re.search(r"\d", item["question"])):
        others = [option for other in draw.sample(items, 40) for option in other["options"].split("\n") if option]
        yield Document("generic stem, other options", item["question"], lettered(others[:4]), item["id"])


def lettered(options: list[str]) -> str:
    """Write options one a line behind capital letters."""
    return "\n".join(f"{letter}. {option}" for letter, option in zip("ABCDEFG", options, strict=False) if option)


def natural(mirror: Path, known: set[str], most: int) -> Iterator[Document]:
    """Read real rows that are not items themselves."""
    draw = random.Random(1)
    sets = {
        "GSM8K train": [(row["question"], row["answer"]) for row in rows(mirror, "openai/gsm8k/main/train")],
        "SVAMP": [(f"{row['Body']}. {row['Question']}", "") for row in rows(mirror, "svamp/svamp/default/train")[500:]],
        "DeepMind": [(row["question"], row["answer"]) for row in rows(mirror, "deepmind/mathematics/default/train")],
        "reasoning-gym": [
            (row["question"], row["response"] or "") for row in rows(mirror, "reasoning-gym/think/default/train")
        ],
    }
    for name, found in sets.items():
        for question, response in draw.sample(found, min(most, len(found))):
            if question not in known:
                yield Document(name, question, response)


def write(documents: list[Document], folder: Path) -> None:
    """Write documents as a stage output."""
    with DocumentWriter(folder) as writer:
        for start in range(0, len(documents), 2000):
            made = [
                {"id": str(i), "source": d.kind, "row": i, "question": d.question, "response": d.response, "answer": ""}
                for i, d in enumerate(documents[start : start + 2000], start)
            ]
            writer.keep(pa.Table.from_pylist(made, schema=SCHEMA))


def measure(folder: Path, mirror: Path, each: int, most: int, read: int) -> None:
    """Plant, search, and print what was removed of each kind; print `read` removed natural pairs."""
    draw = random.Random(2)
    items = all_items(mirror, draw)
    listed = [
        {**row, "options": row["options"] or ""} for row in items.select(["id", "question", "options"]).to_pylist()
    ]
    solutions = {f"gsm8k/{i}": row["answer"] for i, row in enumerate(rows(mirror, "openai/gsm8k/main/test"))}
    questions = {item["question"] for item in listed}
    documents = [*planted(listed, solutions, each), *natural(mirror, questions, most)]
    figured = {d.item for d in documents if d.kind == "without its figure"}
    with_figures = [f"{item['question']} {FIGURE}" if item["id"] in figured else item["question"] for item in listed]
    items = items.set_column(items.column_names.index("question"), "question", pa.array(with_figures))
    write(documents, folder / "in")
    started = time.process_time()
    decontaminate(folder / "in", folder / "out", items, DecontaminationSettings())
    print(f"\n{len(documents)} documents, {len(items)} items: {time.process_time() - started:.1f} CPU s")
    dropped = {
        int(row["id"]): row for batch in read_documents(folder / "out", kind="dropped") for row in batch.to_pylist()
    }
    reported = set(pq.read_table(folder / "out" / "matches.parquet")["id"].to_pylist())
    groups: dict[str, list[int]] = defaultdict(list)
    for number, document in enumerate(documents):
        groups[document.kind].append(number)
    copies = {*COPIES, "solution", "solution, annotations removed"}
    report = []
    for kind, numbers in groups.items():
        removed = sum(number in dropped for number in numbers)
        right = removed if kind in copies else len(numbers) - removed
        report.append(
            {
                "kind": kind,
                "documents": len(numbers),
                "removed": removed,
                "false": 0 if kind in copies else removed,
                "reported": sum(str(number) in reported for number in numbers),
                "should be": "all" if kind in copies else "none" if kind in OTHERS or "generic" in kind else "read",
                "right": f"{100 * right / len(numbers):.2f} %",
            }
        )
    table("Planted and natural documents", report)
    texts = dict(zip(items["id"].to_pylist(), items["question"].to_pylist(), strict=True))
    pairs = [row for number, row in dropped.items() if documents[number].kind not in copies]
    for row in draw.sample(pairs, min(read, len(pairs))):
        cause = texts[row["because"]]
        print(f"\n--- {row['reason']} {row['source']}\nDOCUMENT {row['question']}\nITEM {row['because']} {cause}")
    missed = [n for n, d in enumerate(documents) if n not in dropped and d.kind in copies]
    for number in draw.sample(missed, min(read, len(missed))):
        document = documents[number]
        text = document.question or document.response
        print(f"\n--- MISSED {document.kind}\nDOCUMENT {text}\nITEM {document.item} {texts[document.item]}")


def main() -> None:
    """Run with the sizes of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--mirror", type=Path, required=True, help="a mirror with GSM8K, MathQA, MMLU, SVAMP and others"
    )
    parser.add_argument("--each", type=int, default=300, help="planted documents of each kind")
    parser.add_argument("--most", type=int, default=3000, help="natural documents of each set")
    parser.add_argument("--read", type=int, default=0, help="pairs to print")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lookalikes-") as folder:
        measure(Path(folder), arguments.mirror, arguments.each, arguments.most, arguments.read)


if __name__ == "__main__":
    main()
