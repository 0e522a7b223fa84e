"""The sample of documents: evenly from every source, whatever the order of the sources."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.decontaminate.sample import sample_documents
from pipeline.decontaminate.settings import DecontaminationSettings
from pipeline.decontaminate.stage import decontaminate
from pipeline.storage.documents import find_shards
from tests.pipeline.decontaminate.items import item_table
from tests.pipeline.documents import read, table, write

WORDS = [a + b + c for a in ("ba", "ke", "lo", "mi") for b in ("ra", "to", "nu") for c in ("s", "d", "x")]
TEMPLATE = "{} keeps {} hens behind the old mill and sells them to the baker at the corner of the long street"


def write_sources(folder: Path, sources: list[str]) -> None:
    for place, source in enumerate(sources):
        draw = random.Random(source)
        texts = [" ".join(draw.choices(WORDS, k=30)) for _ in range(4000)]
        if source == "template":
            texts = [TEMPLATE.format(draw.choice(WORDS), draw.randrange(50)) for _ in range(600)]
        parts = [table(((text, "") for text in texts[i : i + 500]), source, i) for i in range(0, len(texts), 500)]
        write(folder, *parts, prefix=f"{place}-", shard_bytes=100_000)


@pytest.mark.parametrize("sources", [["plain", "template", "other"], ["template", "other", "plain"]])
def test_every_source_has_its_share(tmp_path: Path, sources: list[str]) -> None:
    write_sources(tmp_path, sources)
    batches = list(sample_documents(find_shards([tmp_path]), 2000, ["source", "row"]))
    rows = sorted((row["source"], row["row"]) for batch in batches for row in batch.to_pylist())
    counts = {source: sum(name == source for name, _ in rows) for source in sources}
    assert counts["template"] == pytest.approx(500, abs=20)  # more than its share of 140: n-grams of few must show
    assert counts["plain"] == counts["other"] == pytest.approx(930, abs=30)
    plain = [row for name, row in rows if name == "plain"]
    assert max(b - a for a, b in pairwise(plain)) <= 6  # evenly


def test_the_order_of_sources_decides_nothing(tmp_path: Path) -> None:
    items = item_table([(TEMPLATE.format("Natalia", 12), "")])
    settings = DecontaminationSettings(sample=2000)
    removed = []
    for number, sources in enumerate([["plain", "template"], ["template", "plain"]]):
        folder = tmp_path / str(number)
        write_sources(folder / "in", sources)
        results = decontaminate(folder / "in", folder / "out", items, settings)
        assert results["templated_items"] == 1
        removed.append({row["id"] for row in read(folder / "out", "dropped")})
    assert removed[0] == removed[1]
