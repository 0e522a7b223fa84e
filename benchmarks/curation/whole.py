"""Measure the curation of a whole study of synthetic documents: `python -m benchmarks.curation.whole`.

Prints seconds, CPU seconds, the most memory and open files of all processes together, the bytes of the store, and a
digest of the packed tokens, which is equal with any number of processes and on a cluster. Where this process does all
the work, as below 100 MB of text, prints CPU seconds by stage too. `--cluster here local` curates first in this process
or its children, then on the workers of a local Dask cluster. A million documents of 150 words are 0.8 GB; `--folder`
keeps them for another run, and has the stores while they are measured.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.curation.corpus import MEAN_WORDS, corpus, table
from benchmarks.polling import polled
from flows.stages.prepare import prepare_data
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.storage.documents import SCHEMA, shards
from pipeline.storage.files import atomic_folder, link
from pipeline.storage.store import Output, Store, digest

ITEMS = 1_000  # documents of the corpus that are benchmark items too
POLL_SECONDS = 0.5


def mirror_of(folder: Path, documents: int, mean_words: int = MEAN_WORDS) -> Path:
    """Lay the synthetic corpus out as a mirror: a data set of the documents, and one of benchmark items."""
    place = corpus(folder, documents, mean_words).folder
    mirror = folder / f"mirror-of-{place.name}"
    if mirror.exists():
        return mirror
    with atomic_folder(mirror) as partial:
        rows = partial / "synthetic" / "documents" / "default" / "train"
        rows.mkdir(parents=True)
        for shard in shards(place):
            link(shard, rows / shard.name)
        items = partial / "synthetic" / "items" / "default"
        items.mkdir(parents=True)
        first = next(iter(shards(place)))
        pq.write_table(pq.read_table(first, schema=SCHEMA).slice(0, ITEMS), items / "test.parquet")
    return mirror


def study_of(mirror: Path, root: Path, cluster: str | None, memory: str) -> Study:
    """Describe a study whose data are the mirror's; its training is never run."""
    source = {"name": "synthetic", "repository": "synthetic/documents", "question": "question", "response": "response"}
    items = {"name": "items", "repository": "synthetic/items", "split": "test", "text": "question"}
    data = {"mirror": str(mirror), "sources": [source], "memory": memory, "cluster": cluster}
    return load_study(
        {
            "name": "whole",
            "root": str(root),
            "data": data | {"tokenizer": {"vocabulary_size": 512}},
            "training": {"tokens": 10_000, "sequence_length": 256},
            "evaluation": {"benchmarks": [items]},
        }
    )


@contextmanager
def watched() -> Iterator[dict[str, int]]:
    """Yield the most memory (bytes) and open files of this process and its descendants, seen twice a second."""
    most = {"memory": 0, "open files": 0}

    def look() -> None:
        for name, value in zip(most, usage(), strict=True):
            most[name] = max(most[name], value)

    with polled(look, POLL_SECONDS):
        yield most


def usage() -> tuple[int, int]:
    """Sum resident memory (bytes) and open files over this process and its descendants."""
    parents, memory, files = {}, {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (process / "stat").read_text().rpartition(")")[2].split()
            parents[int(process.name)] = int(after_name[1])
            memory[int(process.name)] = int(after_name[21]) * os.sysconf("SC_PAGE_SIZE")
            files[int(process.name)] = len(list((process / "fd").iterdir()))
        except OSError:  # the process has ended, or is another user's
            continue
    ours = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(memory.get(process, 0) for process in ours), sum(files.get(process, 0) for process in ours)


class MeasuringStore(Store):
    """A store that measures the CPU seconds of this process in each stage, over all sources."""

    def __init__(self, root: Path) -> None:
        """Begin with no stage."""
        super().__init__(root)
        self.spent: Counter[str] = Counter()

    def build(self, stage: str, *arguments: Any, **options: Any) -> Output:
        """Build an output as `Store.build` does."""
        before = time.process_time()
        output = super().build(stage, *arguments, **options)
        self.spent[stage] += time.process_time() - before
        return output


def size_of(folder: Path) -> int:
    """Sum the bytes of the files below a folder; a file of several names counts once."""
    states = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum({state.st_ino: state.st_size for state in states}.values())


def measure(
    mirror: Path, root: Path, documents: int, cluster: str | None, memory: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Curate the documents of a mirror as a study does, and measure what curation takes: in all, and by stage.

    The second list is empty where other processes did some of the work.
    """
    study = study_of(mirror, root, cluster, memory)
    store = MeasuringStore(study.store_folder)
    started, before = time.monotonic(), os.times()
    with watched() as most:
        prepared = prepare_data(study, store)
    after = os.times()
    spent, by_others = sum(after[:4]) - sum(before[:4]), sum(after[2:4]) - sum(before[2:4])
    files = {
        name: entry for name, entry in prepared.packed.manifest["files"].items() if name.endswith((".bin", ".npy"))
    }
    whole = {
        "documents": documents,
        "where": cluster or "here",
        "s": time.monotonic() - started,
        "CPU s": spent,
        "peak MB": most["memory"] / 1e6,
        "open files": most["open files"],
        "store MB": size_of(study.store_folder) / 1e6,
        "packed": prepared.packed.results["documents"],
        "digest": digest({name: entry["blake2b"] for name, entry in files.items()}),
    }
    stages = {**store.spent, "all else": spent - store.spent.total()}
    by_stage = [
        {"stage": stage, "CPU s": seconds, "us/document": seconds / documents * 1e6}
        for stage, seconds in stages.items()
    ]
    return whole, [] if by_others or cluster else by_stage


def main() -> None:
    """Run the measurement with the sizes of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curation.whole", description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=2_000, help="documents of the synthetic corpus")
    parser.add_argument("--words", type=int, default=MEAN_WORDS, help="of a document, on average (default 150)")
    parser.add_argument("--cluster", nargs="*", default=["here"], help="where: here, local (Dask), tcp://host:8786")
    parser.add_argument("--memory", default="4GB", help="that curation takes at most")
    parser.add_argument("--folder", type=Path, help="where the corpus stays for another run; else it is temporary")
    arguments = parser.parse_args()
    if arguments.folder:
        arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="curation-", dir=arguments.folder) as temporary:
        mirror = mirror_of(arguments.folder or Path(temporary), arguments.documents, arguments.words)
        rows = []
        for number, cluster in enumerate(arguments.cluster):
            root = Path(temporary) / str(number)
            place = None if cluster == "here" else cluster
            row, by_stage = measure(mirror, root, arguments.documents, place, arguments.memory)
            rows.append(row)
            table("The whole curation of a study", rows)
            if by_stage:
                table(f"By stage, {arguments.documents} documents", by_stage)


if __name__ == "__main__":
    main()
