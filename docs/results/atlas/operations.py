"""Write how many operations each expression of the mixture's benchmark has, and which are new.

python docs/results/atlas/operations.py

Writes operations.csv, with a row for each item: its number of operations, and whether the same
expression stands in the documents that the training is drawn from. Short expressions do: there are
50 of one operation.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from dreamer_study.flows.atlas.bundled import read_recipe
from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.pipeline.worlds.world import write_world

FILE = Path(__file__).with_name("operations.csv")
FAMILY = "expressions"
SIGNS = ("plus", "minus")
PLANTED = "leak"  # copies of items, which decontamination removes


def main() -> None:
    """Write the file."""
    operations().to_csv(FILE, index=False)


def operations() -> pd.DataFrame:
    """Return a row for each item: its id, its operations, and whether training has it too."""
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        write_world(world, WorldSettings(**read_recipe("mixture")["data"]["world"]))
        items = [row["question"] for row in lines(world / f"builtin/world/{FAMILY}/test.jsonl.gz")]
        in_training = set(trained_expressions(world))
    asked = [item.rsplit(";", 1)[1].strip() for item in items]  # the last one, without an answer
    return pd.DataFrame(
        {
            "item_id": [f"world_{FAMILY}/{number}" for number in range(len(asked))],
            "operations": [sum(word in SIGNS for word in text.split()) for text in asked],
            "in_training": [text in in_training for text in asked],
        }
    )


def trained_expressions(world: Path) -> Iterator[str]:
    """Yield the expressions of all documents, such as `plus 2 3` of `expressions plus 2 3 0 ; `."""
    texts = lines(world / "builtin/world/sheets/train.jsonl.gz")
    truth = (world / "sheets.truth.jsonl").read_text(encoding="utf-8").splitlines()
    for row, line in zip(texts, truth, strict=True):
        kind = json.loads(line)["kind"]
        if kind == PLANTED or not row["text"].startswith(FAMILY):
            continue
        for answered in row["text"].removeprefix(FAMILY).split(";"):
            expression, _, _ = answered.strip().rpartition(" ")
            yield expression


def lines(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


if __name__ == "__main__":
    main()
