"""`dreamer compare --over SIZE`: print how the answer changes with the size of the models."""

from __future__ import annotations

import argparse
from typing import Any

import pandas as pd

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.commands.results.printing import print_part
from dreamer_study.flows.commands.results.query import find_results, has_place
from dreamer_study.flows.commands.tables import print_table
from dreamer_study.reports.text.numbers import flops, three_digits
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.statistics.comparison import study_of
from dreamer_study.sql.statistics.errors import SIGNIFICANCE
from dreamer_study.sql.statistics.sizes import Sizes, over_sizes

DASH = "-"


def compare_sizes(options: argparse.Namespace) -> None:
    """Print the ratios of several studies by size, and by how much a doubling changes them."""
    studies = []
    for name in (options.first, options.second, *options.more):
        path, study = find_results(name, None if has_place(name) else options.root)
        studies.append((path, study_of(path, study)))
    sizes = over_sizes(studies, options.over)
    if options.json:
        print_document(ratios=sizes.ratios, trends=sizes.trends, notes=sizes.notes)
        return
    print_part("")
    for row in sizes.trends.to_dict("records"):
        print_part(sentence(row, sizes.ratios["baseline"].iloc[0]))
    print_table(_table(sizes, options.over))
    for note in sizes.notes:
        print_part(note)


def sentence(row: dict[str, Any], baseline: str) -> str:
    """Say by how much the ratio of a variant changes for each doubling of the FLOPs."""
    what = "average" if row["task"] == AVERAGE else "held-out"
    change = three_digits(row["times"])
    interval = f"{three_digits(row['times_low'])} to {three_digits(row['times_high'])}"
    subject = f"{row['variant']}, {what} {row['metric']}:"
    if row["p"] >= SIGNIFICANCE:
        return (
            f"{subject} the ratio to {baseline} does not change significantly with size: {change}"
            f" times for each doubling of FLOPs (95 % CI {interval})."
        )
    text = (
        f"{subject} each doubling of FLOPs makes the ratio to {baseline} {change} times as large"
        f" (95 % CI {interval})."
    )
    if row["crossing"] is None or pd.isna(row["crossing"]):
        return text
    return (
        f"{text} On this line both need equal tokens at {flops(row['crossing'])} FLOPs a token"
        f" (95 % CI {flops(row['crossing_low'])} to {flops(row['crossing_high'])})."
    )


def _table(sizes: Sizes, size: str) -> pd.DataFrame:
    """Tabulate the ratios: a row for each study, variant and metric, by size."""
    rows = []
    for row in sizes.ratios.to_dict("records"):
        rows.append(
            {
                "variant": row["variant"],
                "task": row["task"],
                "metric": row["metric"],
                size: row["size"],
                "FLOPs/token": flops(row["flops_per_token"]),
                "ratio": _or_dash(row["ratio"]),
                "95 % low": _or_dash(row["low"]),
                "high": _or_dash(row["high"]),
                "seeds": row["seeds"],
                "study": row["study"],
            }
        )
    return pd.DataFrame(rows)


def _or_dash(value: Any) -> str:
    return DASH if pd.isna(value) else three_digits(value)
