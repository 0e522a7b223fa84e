"""Write the table of studies in README.md from their ratios of tokens (`ratios.csv`).

python docs/results/readme_table.py
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path(__file__).parent
README = RESULTS.parents[1] / "README.md"
BEGIN, END = "<!-- by docs/results/readme_table.py -->\n", "<!-- end of the table -->\n"

ACCURACY = "average", "accuracy", "average accuracy"
ANSWERS = "average", "loss", "loss of the right answers"
DOCUMENTS = "validation", "loss", "loss on held-out documents"
# Folder, which of its studies, description, measures.
STUDIES = [
    (
        "demo",
        "4",
        "the demo: expressions and recall, depth 4, four seeds of 800,000 tokens each",
        [ACCURACY, ANSWERS, DOCUMENTS],
    ),
    (
        "depth",
        "expressions of up to 4",
        "[expressions](docs/results/depth/README.md) alone, depth 4, eight seeds of 1.2M tokens",
        [ACCURACY],
    ),
    (
        "depth",
        "expressions of up to 6",
        "expressions of up to six operations, 2.4M tokens",
        [ACCURACY],
    ),
    ("depth", "chain of two tables", "chains through two tables, 1.2M tokens", [ACCURACY]),
    ("depth", "chain of three tables", "chains through three tables, 1.6M tokens", [ACCURACY]),
    (
        "recurrence",
        "8",
        "[harder problems](docs/results/recurrence/README.md), depth 8, five seeds of 2M tokens",
        [ACCURACY],
    ),
    (
        "gpu-small",
        "8",
        "[stories](docs/results/gpu-small/README.md), hidden size 256, depth 8,"
        " four seeds of 9M tokens",
        [ACCURACY],
    ),
    (
        "size-and-problems",
        "8",
        "[stories again](docs/results/size-and-problems/README.md),"
        " eight other seeds of 4.8M tokens",
        [ACCURACY],
    ),
    (
        "size-and-problems",
        "4",
        "the repeated stories, hidden size 64, depth 4, six seeds",
        [ACCURACY],
    ),
]
VARIANTS = "DR", "DR+DA"


def main() -> None:
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")


def with_table(text: str) -> str:
    """Return a text with the table between its marks."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "".join(table()) + END + rest.split(END)[1]


def table() -> Iterator[str]:
    """Yield the lines of the table: a row for each study and measure, a column for each variant."""
    yield f"| study | for equal | {' | '.join(VARIANTS)} |\n|---|---|{'---|' * len(VARIANTS)}\n"
    for folder, study, description, measures in STUDIES:
        with (RESULTS / folder / "ratios.csv").open(newline="") as lines:
            rows = {
                (row["study"], row["task"], row["metric"], row["variant"]): row
                for row in csv.DictReader(lines)
            }
        for task, metric, words in measures:
            cells = [cell(rows[study, task, metric, variant]) for variant in VARIANTS]
            yield f"| {description} | {words} | {' | '.join(cells)} |\n"
            description = ""  # which the rows of further measures do not repeat


def cell(row: dict[str, str]) -> str:
    """Format a ratio and its interval: bold where significant, with a mark where it says less.

    The mark is on variants that did not reach the baseline's best.
    """
    ratio, low, high = (float(row[name]) for name in ("ratio", "low", "high"))
    text = f"{ratio:.2f}x ({low:.2f} to {high:.2f})"
    if row["reached"] == "False":
        text += " †"
    return f"**{text}**" if row["significant"] == "True" else text


if __name__ == "__main__":
    main()
