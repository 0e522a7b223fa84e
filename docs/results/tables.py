"""Write the tables of ratios in the pages of docs/results from the studies' `ratios.csv`.

python docs/results/tables.py

A cell has the whole evidence: `1.35 (1.08 to 1.68), 4 seeds`. Each table stands between two marks.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path(__file__).parent
BEGIN, END = "<!-- by docs/results/tables.py -->\n", "<!-- end of the table -->\n"
VARIANTS = "DR", "DR+DA"
# Folder, which of its studies, what was trained.
STUDIES = [
    ("demo", "4", "the demo: expressions and recall, hidden size 64, depth 4"),
    ("depth", "expressions of up to 4", "expressions of up to four operations, hidden size 64"),
    ("depth", "expressions of up to 6", "expressions of up to six operations"),
    ("depth", "chain of two tables", "chains through two tables"),
    ("depth", "chain of three tables", "chains through three tables"),
    ("recurrence", "4", "harder problems, hidden size 96, depth 4"),
    ("recurrence", "8", "harder problems, hidden size 96, depth 8"),
    ("gpu-small", "8", "stories, hidden size 256, depth 8"),
    ("size-and-problems", "8", "stories again, hidden size 256, depth 8"),
    ("size-and-problems", "4", "the same stories, hidden size 64, depth 4"),
]
MEASURES = {
    ("average", "accuracy"): "average accuracy",
    ("average", "loss"): "loss of the right answers",
    ("validation", "loss"): "loss on held-out documents",
}


def main() -> None:
    """Write the table of every page."""
    for page, lines in pages().items():
        path = RESULTS / page
        path.write_text(with_table(path.read_text(encoding="utf-8"), lines), encoding="utf-8")


def with_table(text: str, lines: list[str]) -> str:
    """Return a text with these lines between its marks."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "".join(lines) + END + rest.split(END)[1]


def pages() -> dict[str, list[str]]:
    """Return the lines of the table of each page."""
    tables = {"README.md": list(index())}
    for folder in dict.fromkeys(folder for folder, _, _ in STUDIES):
        tables[f"{folder}/README.md"] = list(of_folder(folder))
    return tables


def index() -> Iterator[str]:
    """Yield the table of all studies in average accuracy."""
    yield f"| study | {' | '.join(VARIANTS)} |\n|---|{'---|' * len(VARIANTS)}\n"
    for folder, study, description in STUDIES:
        ratios = {row["variant"]: row for row in rows(folder) if is_of(row, study, "accuracy")}
        cells = [cell(ratios[variant]) for variant in VARIANTS]
        yield f"| [{description}]({folder}/README.md) | {' | '.join(cells)} |\n"


def of_folder(folder: str) -> Iterator[str]:
    """Yield the table of one page: a row for each study, measure and variant."""
    described = {study: text for of, study, text in STUDIES if of == folder}
    titles = (
        "study",
        "for equal",
        "variant",
        "ratio (95 % CI), seeds",
        "at scores",
        "reached LA's best",
    )
    yield f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n"
    for study, description in described.items():
        for row in rows(folder):
            measure = MEASURES.get((row["task"], row["metric"]))
            if row["study"] != study or measure is None:
                continue
            reached = "yes" if row["reached"] == "True" else "no"
            cells = [description, measure, row["variant"], cell(row), scores(row), reached]
            yield f"| {' | '.join(cells)} |\n"


def rows(folder: str) -> list[dict[str, str]]:
    """Read the ratios of a folder."""
    with (RESULTS / folder / "ratios.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def is_of(row: dict[str, str], study: str, metric: str) -> bool:
    """Whether a row is the average of a study in a metric."""
    return (row["study"], row["task"], row["metric"]) == (study, "average", metric)


def cell(row: dict[str, str]) -> str:
    """Format a ratio with its evidence: bold where significant, † where LA's best was not reached.

    The CI is the 95 % confidence interval.
    """
    ratio, low, high = (float(row[name]) for name in ("ratio", "low", "high"))
    text = f"{ratio:.2f} ({low:.2f} to {high:.2f}), {row['seeds']} seeds"
    if row["significant"] == "True":
        text = f"**{text}**"
    return text if row["reached"] == "True" else f"{text} †"


def scores(row: dict[str, str]) -> str:
    """Format the scores at which tokens are compared, from the worse to the better one."""
    ends = [float(row["score_low"]), float(row["score_high"])]
    if row["metric"] == "accuracy":
        return f"{ends[0]:.0%} to {ends[1]:.0%}".replace("%", " %")
    return f"{ends[1]:.2f} to {ends[0]:.2f} bits per byte"


if __name__ == "__main__":
    main()
