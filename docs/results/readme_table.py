"""Write the table of findings in README.md from the ratios of tokens of studies (`ratios.csv`).

python docs/results/readme_table.py
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path(__file__).parent
README = RESULTS.parents[1] / "README.md"
BEGIN, END = "<!-- by docs/results/readme_table.py -->\n", "<!-- end of the table -->\n"

TASK, METRIC = "average", "accuracy"
# Folder, which of its studies, description.
STUDIES = [
    (
        "demo",
        "4",
        "the demo: expressions and recall, hidden size 64, depth 4, four seeds",
    ),
    (
        "depth",
        "expressions of up to 4",
        "[expressions](docs/results/depth/README.md) alone, hidden size 64, depth 4, eight seeds",
    ),
    (
        "recurrence",
        "8",
        "[harder problems](docs/results/recurrence/README.md), hidden size 96, depth 8, five seeds",
    ),
    (
        "size-and-problems",
        "4",
        "[stories](docs/results/size-and-problems/README.md), hidden size 64, depth 4, six seeds",
    ),
    (
        "size-and-problems",
        "8",
        "the same stories, hidden size 256, depth 8, eight seeds, protocol committed in advance",
    ),
]
FIVE_DEMOS = "[five demos](docs/results/demo-repetitions/README.md)"
REPETITIONS = f"{FIVE_DEMOS}, each with its own seeds and problems: mean"
VARIANTS = "DR", "DR+DA"


def main() -> None:
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")


def with_table(text: str) -> str:
    """Return a text with the table between its marks."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "".join(table()) + END + rest.split(END)[1]


def table() -> Iterator[str]:
    """Yield the lines of the table: a row for each study, a column for each variant."""
    yield f"| study, for equal average accuracy | {' | '.join(VARIANTS)} |\n"
    yield f"|---|{'---|' * len(VARIANTS)}\n"
    for folder, study, description in STUDIES:
        with (RESULTS / folder / "ratios.csv").open(newline="") as lines:
            rows = {
                row["variant"]: row
                for row in csv.DictReader(lines)
                if (row["study"], row["task"], row["metric"]) == (study, TASK, METRIC)
            }
        cells = [cell(rows[variant]) for variant in VARIANTS]
        yield f"| {description} | {' | '.join(cells)} |\n"
        if folder == "demo":
            yield f"| {REPETITIONS} | {' | '.join(repeated())} |\n"


def repeated() -> list[str]:
    """Format the mean ratios over repetitions of the demo, with the intervals of the means."""
    with (RESULTS / "demo-repetitions" / "summary.csv").open(newline="") as lines:
        rows = {
            row["variant"]: row
            for row in csv.DictReader(lines)
            if (row["task"], row["metric"]) == (TASK, METRIC)
        }
    means = [[float(rows[one][f"mean{end}"]) for end in ("", "_low", "_high")] for one in VARIANTS]
    return [f"{mean:.2f}x ({low:.2f} to {high:.2f})" for mean, low, high in means]


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
