"""The sample of documents: evenly from every source, whatever the order of the sources."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.decontaminate.sample import sample_documents
from pipeline.storage.documents import find_shards
from tests.pipeline.decontaminate.items import WORDS
from tests.pipeline.documents import table, write

TEMPLATE = "{} keeps {} hens behind the old mill and sells them to the baker at the corner of the long street"


def write_sources(folder: Path, sources: list[str]) -> None:
    for place, source in enumerate(sources):
        draw = random.Random(source)
        texts = [" ".join(draw.choices(WORDS, k=30)) for _ in range(4000)]
        if source == "template":
            texts = [TEMPLATE.format(draw.choice(WORDS), draw.randrange(50)) for _ in range(600)]
        parts = [table(((text, "") for text in texts[i : i + 500]), source, i) for i in range(0, len(texts), 500)]
        write(folder, *parts, prefix=f"{place}-", shard_bytes=100_000)


def test_every_source_has_its_share_in_any_order(tmp_path: Path) -> None:
    samples = []
    for sources in (["plain", "template", "other"], ["template", "other", "plain"]):
        folder = tmp_path / sources[0]
        write_sources(folder, sources)
        batches = list(sample_documents(find_shards([folder]), 2000, ["source", "row"]))
        samples.append(sorted((row["source"], row["row"]) for batch in batches for row in batch.to_pylist()))
    rows, others = samples
    assert rows == others
    counts = Counter(source for source, _ in rows)
    assert counts["template"] == pytest.approx(500, abs=20)  # more than its share of 140: n-grams of few must show
    assert counts["plain"] == counts["other"] == pytest.approx(930, abs=30)
    plain = [row for name, row in rows if name == "plain"]
    assert max(b - a for a, b in pairwise(plain)) <= 6  # evenly
