"""Measure what curation finds of planted duplicates and leaks; decides whether a change of its
rules is kept.

    python -m benchmarks.truth [--documents 5000]

The built-in world plants exact and near duplicates, variants in other numbers and leaks of its
benchmarks in eight edits. Its documents are short, so near duplicates at given Jaccard similarities
are planted here, among worked solutions of its problems: words that are neither names nor numbers
are exchanged until the Jaccard similarity of the 5-grams is as low as asked for.
`benchmarks.truth.lookalikes` does as much with real problems that look alike.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from benchmarks.tables import print_table
from benchmarks.truth.documents import read_dropped, write_documents
from dreamer_study.pipeline.decontaminate.decontaminate import decontaminate
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
from dreamer_study.pipeline.dedup.deduplicate import deduplicate
from dreamer_study.pipeline.dedup.settings import DedupSettings
from dreamer_study.pipeline.sources.read import read_source
from dreamer_study.pipeline.sources.repositories.splits import find_split
from dreamer_study.pipeline.sources.table import resolve_source
from dreamer_study.pipeline.storage.documents import read_documents
from dreamer_study.pipeline.text.number_words import NUMBER_WORDS
from dreamer_study.pipeline.text.words import text_column, word_blocks
from dreamer_study.pipeline.traces.strip_source import strip_traces
from dreamer_study.pipeline.worlds.planting import EDITS
from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.pipeline.worlds.tasks import world_items
from dreamer_study.pipeline.worlds.world import WORLD_SOURCES, write_world

# lower ends of ranges; duplicates are those from 0.7
SIMILARITIES = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
WIDTH = 0.05
Truth = list[tuple[str, str, str, str]]  # kind, edit, id, id of the original or nothing


def planted(folder: Path, documents: int) -> tuple[list[Path], Truth, pa.Table]:
    """Write the world and the worked solutions; return the sources, what was planted, the benchmark
    items."""
    mirror = folder / "world"
    write_world(mirror, WorldSettings(documents=documents, leak_edits=EDITS, leaked=0.4))
    source = resolve_source(WORLD_SOURCES["stories"])
    read_source(source, find_split(mirror / source.repository, "default", "train"), folder / "read")
    strip_traces(folder / "read", folder / "stripped")
    ids = {
        row: name
        for kind in ("documents", "dropped")
        for batch in read_documents(folder / "read", kind=kind, columns=["row", "id"])
        for row, name in zip(batch["row"].to_pylist(), batch["id"].to_pylist(), strict=True)
    }
    truth: Truth = []
    with (mirror / "truth.jsonl").open() as file:
        for entry in map(json.loads, file):
            of = ids[entry["of"]] if entry["kind"] in ("exact", "near", "numbers") else ""
            if entry["kind"] in ("exact", "near", "numbers", "leak", "clean"):
                truth.append((entry["kind"], entry["edit"] or "", ids[entry["row"]], of))
    clean = {name for kind, _, name, _ in truth if kind == "clean"}
    known = plant_similar(list(worked(folder / "read", clean)), folder / "worked", documents // 20)
    return [folder / "stripped", folder / "worked"], [*truth, *known], world_items(mirror)


def plant_similar(solutions: list[str], output: Path, originals: int) -> Truth:
    """Write solutions, and of each a near duplicate in a range of SIMILARITIES and a variant with
    another number."""
    draw = random.Random(0)
    texts = [text for text in solutions if len(text.split()) >= 60][:originals]
    words = sorted({word for text in texts for word in text.split() if exchangeable(word)})
    rows: list[tuple[str, str]] = []
    truth: Truth = []
    for number, text in enumerate(texts):
        rows.append((f"worked/{number}", text))
        low = SIMILARITIES[number % len(SIMILARITIES)]
        copy = similar(draw, text, low, words)
        if copy is not None:
            rows.append((f"worked/{number}.near", copy))
            kind = "near" if low >= DedupSettings.threshold else "less alike"
            truth.append((kind, f"Jaccard {low:.2f}", f"worked/{number}.near", f"worked/{number}"))
        rows.append((f"worked/{number}.numbers", other_number(draw, text)))
        truth.append(("numbers", "one number", f"worked/{number}.numbers", f"worked/{number}"))
    write_documents(output, [(name, "worked", "", text) for name, text in rows])
    return truth


def worked(source: Path, clean: set[str]) -> Iterator[str]:
    """Yield questions of the world's clean rows with the reasoning of their traces, without the
    marks."""
    for batch in read_documents(source, columns=["id", "question", "response"]):
        for row in batch.to_pylist():
            if row["id"] in clean and row["response"].startswith("<think>"):
                yield f"{row['question']} {row['response'].removeprefix('<think>').replace('</think>', '')}"


def exchangeable(word: str) -> bool:
    """Test whether a word is neither a name nor a number."""
    return word.isalpha() and word.islower() and word not in NUMBER_WORDS


def similar(draw: random.Random, text: str, low: float, words: list[str]) -> str | None:
    """Edit a copy until its Jaccard similarity lies between `low` and `low + WIDTH`; None where no
    edit does."""
    original = ngrams(text)
    for _ in range(20):
        edited = text.split(" ")
        places = [place for place, word in enumerate(edited) if exchangeable(word)]
        for place in draw.sample(places, len(places)):
            edited[place] = draw.choice([word for word in words if word != edited[place]])
            copy = ngrams(" ".join(edited))
            jaccard = len(original & copy) / len(original | copy)
            if low <= jaccard < low + WIDTH:
                return " ".join(edited)
            if jaccard < low:
                break
    return None


def ngrams(text: str) -> set[int]:
    """Compute the n-grams that deduplication compares."""
    ((_, words),) = word_blocks(text_column(pa.array([text])))
    return set(words.ngrams(DedupSettings.words)[0].tolist())


def other_number(draw: random.Random, text: str) -> str:
    """Change one of the numbers of a text."""
    edited = text.split(" ")
    place = draw.choice([place for place, word in enumerate(edited) if word.isdigit()])
    edited[place] = str(int(edited[place]) + draw.randint(1, 9))
    return " ".join(edited)


def measure(folder: Path, documents: int) -> None:
    """Plant, deduplicate, decontaminate, and print what was found."""
    sources, truth, items = planted(folder, documents)
    deduplicate(sources, folder / "unique", DedupSettings())
    decontaminate(folder / "unique", folder / "curated", items, DecontaminationSettings())
    dropped = {stage: read_dropped(folder / stage) for stage in ("unique", "curated")}
    survivor = {name: because for name, (_, because) in dropped["unique"].items()}
    groups: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for kind, edit, name, of in truth:
        if kind in ("leak", "clean"):
            found = name in dropped["curated"] or (
                kind == "leak" and survivor.get(name) in dropped["curated"]
            )
        else:
            found = survivor.get(name, name) == survivor.get(of, of)
        groups[kind, edit].append(found)
    wanted = {"exact", "near", "leak"}
    print_table(
        f"Planted in the built-in world, {documents} documents",
        [
            {
                "planted": kind,
                "edit": edit,
                "rows": len(found),
                "found": sum(found),
                "should be": "all" if kind in wanted else "none",
                "right": f"{100 * sum(each == (kind in wanted) for each in found) / len(found):.2f} %",
            }
            for (kind, edit), found in sorted(groups.items())
        ],
    )
    print_table(
        "Precision: of what was removed, what was planted for it", precision(truth, dropped)
    )


def precision(
    truth: Truth, dropped: dict[str, dict[str, tuple[str, str]]]
) -> list[dict[str, object]]:
    """Count by reason how many documents were dropped, and how many of them rightly."""
    original = {name: of for kind, _, name, of in truth if kind in ("exact", "near")}
    leaks = {name for kind, _, name, _ in truth if kind == "leak"}
    rights: dict[str, list[bool]] = defaultdict(list)
    for name, (reason, because) in dropped["unique"].items():
        rights[reason].append(original.get(name, name) == original.get(because, because))
    for name, (reason, _) in dropped["curated"].items():
        rights[reason].append(name in leaks)
    return [
        {
            "reason": reason,
            "documents": len(right),
            "right": sum(right),
            "precision": f"{100 * sum(right) / len(right):.2f} %",
        }
        for reason, right in sorted(rights.items())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.truth", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--documents", type=int, default=5_000, help="documents of the built-in world"
    )
    with tempfile.TemporaryDirectory(prefix="truth-") as folder:
        measure(Path(folder), parser.parse_args().documents)


if __name__ == "__main__":
    main()
