"""Write the table of studies in README.md from their mean factors.

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
ANSWERS = "average", "loss", "correct-answer bits per byte"
DOCUMENTS = "validation", "loss", "loss on held-out documents"
# folder, depth or world, description, measures; of the former demos what was printed, to two digits
STUDIES = [
    (
        "demo-repetitions",
        "4",
        "ten demos: expressions and recall, depth 4, four seeds of 800,000 tokens each",
        [ACCURACY, ANSWERS, DOCUMENTS],
    ),
    ("demo", "4", "the demo, the first of the ten", [ACCURACY]),
    (
        "depth",
        "expressions of up to 4",
        "[expressions](docs/results/depth/README.md) alone, depth 4, eight seeds of 1.2M tokens,"
        " protocol beforehand",
        [ACCURACY],
    ),
    ("depth", "expressions of up to 6", "of up to six operations, 2.4M tokens", [ACCURACY]),
    ("depth", "chain of two tables", "chains through two tables, 1.2M tokens", [ACCURACY]),
    ("depth", "chain of three tables", "through three, 1.6M tokens", [ACCURACY]),
    (
        "former-demos",
        "4",
        "[ten former demos](docs/log.md): stories, relations, swaps, one rate, ten seeds each",
        [ACCURACY],
    ),
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
    (
        "real",
        "4",
        "[public rows](docs/results/real/README.md), depth 4, five seeds of 1M tokens",
        [DOCUMENTS],
    ),
]
VARIANTS = "DR", "DR+DA"


def main() -> None:
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")


def with_table(text: str) -> str:
    """Return a text with the table between its marks."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "".join(table()) + END + rest.split(END)[1]


def rows_of(folder: Path) -> Iterator[dict[str, str]]:
    """Read the factors of a study, or of repetitions of a study as the summary of their bounds."""
    names = ("summary.csv", "factors.csv", "mean_factors.csv")
    path = next(folder / name for name in names if (folder / name).exists())
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            if "mean" in row:  # repetitions
                row["factor"] = ""
                row["bound"] = row["mean"]
                row["bound_low"] = row["mean_low"]
                row["bound_high"] = row["mean_high"]
            yield row


def table() -> Iterator[str]:
    """Yield the lines of the table: a row for each study and measure, a column for each variant."""
    yield f"| study | for equal | {' | '.join(VARIANTS)} |\n|---|---|{'---|' * len(VARIANTS)}\n"
    for folder, depth_or_world, description, measures in STUDIES:
        rows = {
            (row.get("world") or row["depth"], row["task"], row["metric"], row["variant"]): row
            for row in rows_of(RESULTS / folder)
        }
        for task, metric, words in measures:
            cells = [cell(rows[depth_or_world, task, metric, variant]) for variant in VARIANTS]
            yield f"| {description} | {words} | {' | '.join(cells)} |\n"
            description = ""  # which the rows of further measures do not repeat


def cell(row: dict[str, str]) -> str:
    """Format a factor and its interval.

    A row that has no factor, or whose factor covers less than 0.9 of the range, gives its bound.
    """
    if not row["factor"] or float(row.get("covered") or 1) < 0.9:
        return f"at most {interval(row, 'bound', 'bound_low', 'bound_high')}"
    return interval(row, "factor", "low", "high")


def interval(row: dict[str, str], *names: str) -> str:
    value, low, high = (float(row[name]) for name in names)
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
