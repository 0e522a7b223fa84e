"""Measure the curation of a whole study; decides whether a change of any stage, or of how stages
are run, is kept.

    python -m benchmarks.curation.whole [--documents 60000] [--words 150] [--cluster here local]
    [--folder FOLDER]

Prints seconds, CPU seconds, the most memory and open files of all processes together, the bytes of
the store, and a digest of the packed tokens, which is equal with any number of processes and on a
cluster. Where this process does all the work, as below 100 MB of text, prints CPU seconds by stage
too. `--cluster here local` curates first in this process or its children, then on the workers of a
local Dask cluster. A million documents of 150 words are 0.8 GB; `--folder` keeps them for another
run, and has the stores while they are measured.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from benchmarks.curation.corpus import MEAN_WORDS, corpus
from benchmarks.tables import print_table
from dreamer_study.flows.jobs.cluster import open_jobs
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.pipeline.storage.documents import SCHEMA, shards
from dreamer_study.pipeline.storage.files import atomic_folder
from dreamer_study.pipeline.storage.store import Output, Store

ITEMS = 1_000  # documents of the corpus that are benchmark items too
POLL_SECONDS = 0.5


def mirror_of(folder: Path, documents: int, mean_words: int = MEAN_WORDS) -> Path:
    """Lay the synthetic corpus out as a mirror: a data set of the documents, and one of benchmark
    items."""
    place = corpus(folder, documents, mean_words).folder
    mirror = folder / f"mirror-of-{place.name}"
    if mirror.exists():
        return mirror
    with atomic_folder(mirror) as partial:
        rows = partial / "synthetic" / "documents" / "default" / "train"
        rows.mkdir(parents=True)
        for shard in shards(place):
            os.link(shard, rows / shard.name)
        items = partial / "synthetic" / "items" / "default"
        items.mkdir(parents=True)
        pq.write_table(
            pq.read_table(shards(place)[0], schema=SCHEMA).slice(0, ITEMS), items / "test.parquet"
        )
    return mirror


def study_of(mirror: Path, root: Path, cluster: str | None) -> Study:
    """Describe a study whose data are the mirror's; its training is never run."""
    source = {
        "name": "synthetic",
        "repository": "synthetic/documents",
        "question": "question",
        "response": "response",
    }
    items = {"name": "items", "repository": "synthetic/items", "split": "test", "text": "question"}
    data = {"mirror": str(mirror), "sources": [source], "tokenizer": {"vocabulary_size": 512}}
    return load_study(
        {
            "name": "whole",
            "root": str(root),
            "data": data,
            "compute": {"cluster": cluster},
            "training": {"tokens": 10_000, "sequence_length": 256},
            "evaluation": {"benchmarks": [items]},
        }
    )


@contextmanager
def watched() -> Iterator[dict[str, int]]:
    """Yield the most memory (bytes) and open files of this process and its descendants, seen twice
    a second."""
    most, over = {"memory": 0, "open files": 0}, threading.Event()

    def look() -> None:
        while not over.wait(POLL_SECONDS):
            for name, value in zip(most, usage(), strict=True):
                most[name] = max(most[name], value)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def usage() -> tuple[int, int]:
    """Sum resident memory (bytes) and open files over this process and its descendants."""
    memory = files = 0
    for process in (me := psutil.Process(), *me.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended meanwhile
            memory, files = memory + process.memory_info().rss, files + process.num_fds()
    return memory, files


class MeasuringStore(Store):
    """A store that measures the CPU seconds of this process in each stage, over all sources."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.spent: Counter[str] = Counter()

    def build(self, output: Output, *arguments: Any, **options: Any) -> None:
        """Build an output as `Store.build` does."""
        before = time.process_time()
        super().build(output, *arguments, **options)
        self.spent[output.stage] += time.process_time() - before


def size_of(folder: Path) -> int:
    """Sum the bytes of the files below a folder; a file of several names counts once."""
    states = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum({state.st_ino: state.st_size for state in states}.values())


def measure(
    mirror: Path, root: Path, cluster: str | None
) -> tuple[dict[str, Any], dict[str, float]]:
    """Curate a mirror as a study does: what that takes in all, and CPU seconds by stage.

    The latter are empty where other processes did some of the work.
    """
    started, before = time.monotonic(), os.times()
    with watched() as most, open_jobs(study_of(mirror, root, cluster)) as (study, _):
        plan = Plan(study)
        plan.store = store = MeasuringStore(study.store_folder)
        prepare_data(plan, Steps())
    packed = plan.data.packed
    after = os.times()
    spent, by_others = sum(after[:4]) - sum(before[:4]), sum(after[2:4]) - sum(before[2:4])
    tokens = {
        name: entry["blake2b"]
        for name, entry in packed.manifest["files"].items()
        if name.endswith((".bin", ".npy"))
    }
    whole = {
        "where": cluster or "here",
        "s": time.monotonic() - started,
        "CPU s": spent,
        "peak MB": most["memory"] / 1e6,
        "open files": most["open files"],
        "store MB": size_of(study.store_folder) / 1e6,
        "packed": packed.results["documents"],
        "digest": digest(tokens),
    }
    return whole, {} if by_others or cluster else {
        **store.spent,
        "all else": spent - store.spent.total(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--documents", type=int, default=60_000, help="documents of the synthetic corpus"
    )
    parser.add_argument(
        "--words", type=int, default=MEAN_WORDS, help="of a document, on average (default 150)"
    )
    parser.add_argument(
        "--cluster", nargs="*", default=["here"], help="where: here, local (Dask), tcp://host:8786"
    )
    parser.add_argument(
        "--folder", type=Path, help="where the corpus stays for another run; else it is temporary"
    )
    options = parser.parse_args()
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="curation-", dir=options.folder) as temporary:
        mirror = mirror_of(options.folder or Path(temporary), options.documents, options.words)
        rows = []
        for number, cluster in enumerate(options.cluster):
            row, spent = measure(
                mirror, Path(temporary) / str(number), None if cluster == "here" else cluster
            )
            rows.append(row)
            stages = [
                {"stage": stage, "CPU s": seconds, "us/document": seconds / options.documents * 1e6}
                for stage, seconds in spent.items()
            ]
            if stages:
                print_table(f"By stage, {options.documents} documents", stages)
        print_table(f"The whole curation of a study of {options.documents} documents", rows)


if __name__ == "__main__":
    main()
