"""`dreamer compare --over SIZE`: print how the answer changes with the size of the models."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.commands.results.printing import print_part
from dreamer_study.flows.commands.results.query import find_results, has_place
from dreamer_study.flows.commands.tables import print_csv, print_table
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import naming
from dreamer_study.reports.text.numbers import flops, three_digits
from dreamer_study.reports.text.ratios import LEAST, MOST
from dreamer_study.reports.text.sizes import sentence
from dreamer_study.sql.names import AT_LEAST, AT_MOST
from dreamer_study.sql.statistics.comparison import study_of
from dreamer_study.sql.statistics.sizes import SizeComparison, over_sizes

DASH = "-"
NOT_REACHED = " †"
BOUNDS = {"": "", AT_LEAST: f"{LEAST} ", AT_MOST: f"{MOST} "}
TEXTS = ("variant", "task", "metric", "study")  # columns set to the left
DRAWN = (".svg", ".pdf", ".png")


def compare_sizes(options: argparse.Namespace) -> None:
    """Print the ratios of several studies by size, and by how much ten times the FLOPs change them.

    Raises InputError where the studies do not compare, or a figure cannot be written.
    """
    if options.csv and options.json:
        raise InputError("--csv and --json are two forms of one output; give one of them")
    studies = []
    for name in (options.first, options.second, *options.more):
        path, study = find_results(name, None if has_place(name) else options.root)
        studies.append((path, study_of(path, study)))
    sizes = over_sizes(studies, options.over)
    if options.plot:  # before the reader of what is printed may leave
        draw(sizes, options.over, options.plot)
    if options.json:
        print_document(
            ratios=sizes.ratios, trends=sizes.trends, lines=sizes.lines, notes=sizes.notes
        )
    elif options.csv:
        print_csv(sizes.ratios)
    else:
        _print(sizes, options)


def draw(sizes: SizeComparison, size: str, file: Path) -> None:
    """Write the figure of ratios by size to a file.

    Raises InputError for another ending than those of `DRAWN`.
    """
    # with Altair, which takes a second
    from dreamer_study.reports.figures.rendering import save
    from dreamer_study.reports.figures.sizes import ratios_by_size

    if file.suffix not in DRAWN:
        raise InputError(f"{file}: a figure ends in {', '.join(DRAWN[:-1])} or {DRAWN[-1]}")
    with naming(file):
        save(ratios_by_size(sizes, size), file)


def _print(sizes: SizeComparison, options: argparse.Namespace) -> None:
    print_part("")
    baseline = sizes.ratios["baseline"].iloc[0]
    for row in sizes.trends.to_dict("records"):
        print_part(sentence(row, baseline))
    missed = f" †: the best of {baseline} was not reached." if _any_missed(sizes) else ""
    print_part(f"Training tokens over those of {baseline}, for equal scores.{missed}")
    table = _table(sizes, options.over)
    print_table(table, right=[name for name in table if name not in TEXTS])
    for note in sizes.notes:
        print_part(note)
    if options.plot:
        print_part(f"figure: {options.plot}")


def _any_missed(sizes: SizeComparison) -> bool:
    return bool(sizes.ratios["reached"].eq(False).any())


def _table(sizes: SizeComparison, size: str) -> pd.DataFrame:
    """Tabulate the ratios: a row for each study, variant and metric, by size."""
    rows = []
    for row in sizes.ratios.to_dict("records"):
        is_ratio = not row["bound"]
        rows.append(
            {
                "variant": row["variant"],
                "task": row["task"],
                "metric": row["metric"],
                size: row["size"],
                "FLOPs/token": flops(row["flops_per_token"]),
                "ratio": _value(row),
                "95 % low": _or_dash(row["low"]) if is_ratio else DASH,
                "high": _or_dash(row["high"]) if is_ratio else DASH,
                "seeds": row["seeds"],
                "study": row["study"],
            }
        )
    return pd.DataFrame(rows)


def _value(row: Mapping[str, Any]) -> str:
    """Format a ratio or a bound, with a mark where the baseline's best was not reached."""
    missed = NOT_REACHED if row["reached"] is False else ""
    return f"{BOUNDS[row['bound']]}{_or_dash(row['value'])}{missed}"


def _or_dash(value: Any) -> str:
    return DASH if pd.isna(value) else three_digits(value)
