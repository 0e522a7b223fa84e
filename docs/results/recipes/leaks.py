"""Write the source `leaks` of these studies: a tenth of the benchmarks' items, word for word.

python docs/results/recipes/leaks.py
"""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.pipeline.worlds.world import write_world

HERE = Path(__file__).parent
# The benchmarks of these settings are those of the studies, which depend on neither documents nor
# leaks.
LEAKY = WorldSettings(
    documents=1000,
    items=200,
    families=("expressions", "recall"),
    recall_pairs=10,
    exact_duplicates=0,
    broken=0,
    leaked=0.1,
)


def main() -> None:
    """Write `leaks.jsonl` and `leaked.csv`, the ids of these items."""
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        write_world(world, LEAKY)
        with gzip.open(world / "builtin/world/sheets/train.jsonl.gz", "rt") as file:
            rows = [json.loads(line) for line in file]
        with (world / "sheets.truth.jsonl").open() as file:
            truth = [json.loads(line) for line in file]
    leaked = [
        (of["of"], row["text"]) for of, row in zip(truth, rows, strict=True) if of["kind"] == "leak"
    ]
    lines = [json.dumps({"text": text}) + "\n" for _, text in leaked]
    (HERE / "leaks.jsonl").write_text("".join(lines))
    names = sorted(item for item, _ in leaked)
    (HERE / "leaked.csv").write_text("\n".join(["item", *names]) + "\n")


if __name__ == "__main__":
    main()
