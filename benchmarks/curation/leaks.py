"""Measure the recall of decontamination on GSM8K test questions planted among its training questions."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.curation.corpus import table
from pipeline.decontaminate.settings import GRADES, DecontaminationSettings
from pipeline.decontaminate.stage import decontaminate
from pipeline.storage.documents import SCHEMA, DocumentWriter, read_documents


def item_table(questions: list[str], answers: list[str] | None = None) -> pa.Table:
    """Arrange questions as benchmark items, with the columns that decontamination reads."""
    return pa.table(
        {
            "id": [f"planted/{i}" for i in range(len(questions))],
            "benchmark": ["planted"] * len(questions),
            "question": questions,
            "answer": answers or [""] * len(questions),
        }
    )


def gsm8k(mirror: Path, split: str) -> list[dict[str, str]]:
    """Read a split of GSM8K from a mirror."""
    with gzip.open(mirror / f"openai/gsm8k/main/{split}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def reworded(draw: random.Random, words: list[str], every: int) -> Callable[[str], str]:
    """Make an edit that exchanges one word in `every`, one at least."""

    def edit(text: str) -> str:
        edited = text.split()
        for place in draw.sample(range(len(edited)), max(1, len(edited) // every)):
            edited[place] = draw.choice(words)
        return " ".join(edited)

    return edit


def measure_real_leaks(folder: Path, mirror: Path) -> None:
    """Plant edited GSM8K test questions in training questions, and print the share found in each grade."""
    train, test = gsm8k(mirror, "train"), gsm8k(mirror, "test")
    draw = random.Random(0)
    words = [word for row in train for word in row["question"].split() if word.isalpha()]
    edits: dict[str, Callable[[str], str]] = {
        "verbatim": lambda text: text,
        "spacing": lambda text: re.sub(" ", lambda _: draw.choice([" ", "  ", "\n"]), text),
        "case": lambda text: draw.choice([str.upper, str.lower, str.title])(text),
        "LaTeX": lambda text: re.sub(r"\d[\d,.]*\d|\d", lambda m: f"${m[0]}$", text),
        "a word in twelve": reworded(draw, words, 12),
        "a word in four": reworded(draw, words, 4),
        "numbers": lambda text: re.sub(r"\d+", lambda m: str(int(m[0]) + draw.randint(1, 9)), text),
    }
    rows = [(row["question"], row["answer"].split("####")[0], "none") for row in train]
    for name, edit in edits.items():
        for row in test:
            host = draw.choice(train)
            rows.append((f"{host['question']} {edit(row['question'])}", host["answer"].split("####")[0], name))
    items = item_table([row["question"] for row in test], [row["answer"] for row in test])
    search(folder / "leaks", rows, items)
    grades: dict[str, str] = {}
    for row in pq.read_table(folder / "leaks" / "found" / "matches.parquet").to_pylist():
        grades[row["id"]] = min(grades.get(row["id"], "template"), row["grade"])  # exact < overlap < template
    report = []
    for name in ("none", *edits):
        ids = [str(i) for i, row in enumerate(rows) if row[2] == name]
        shares = {g: f"{100 * sum(grades.get(i) == g for i in ids) / len(ids):.2f} %" for g in GRADES}
        report.append({"edit": name, "documents": len(ids), **shares})
    table("GSM8K test questions inside GSM8K training questions", report)


def search(folder: Path, rows: list[tuple[str, str, str]], items: pa.Table) -> None:
    """Decontaminate documents of these questions, responses and sources into `folder`/found."""
    with DocumentWriter(folder) as writer:
        documents = [
            {"id": str(i), "source": name, "row": i, "question": question, "response": response, "answer": ""}
            for i, (question, response, name) in enumerate(rows)
        ]
        writer.keep(pa.Table.from_pylist(documents, schema=SCHEMA))
    decontaminate(folder, folder / "found", items, DecontaminationSettings())


def measure_many_copies(folder: Path, mirror: Path) -> None:
    """Plant twenty GSM8K test questions, each in many copies edited in different places, and print what is removed."""
    train, test = gsm8k(mirror, "train"), gsm8k(mirror, "test")
    words = [word for row in train for word in row["question"].split() if word.isalpha()]
    items = item_table([row["question"] for row in test], [row["answer"] for row in test])
    report = []
    for copies, every in ((25, 12), (100, 12), (300, 12), (100, 8), (100, 6)):
        draw = random.Random(copies * every)
        edit = reworded(draw, words, every)
        rows = [(row["question"], row["answer"].split("####")[0], "train") for row in train]
        for row in draw.sample(test, 20):
            rows += [(edit(row["question"]), "Some.", "copy") for _ in range(copies)]
        place = folder / f"copies-{copies}-{every}"
        search(place, rows, items)
        dropped = [
            row["source"] for batch in read_documents(place / "found", kind="dropped") for row in batch.to_pylist()
        ]
        found = {name: dropped.count(name) for name in ("copy", "train")}
        report.append({"copies of each": copies, "one word in": every, "copies": 20 * copies, **found})
    table("Many copies of one question, each edited elsewhere: documents removed", report)
