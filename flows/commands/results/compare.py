"""`dreamer compare`: print what changed beyond noise between two studies, the verdict first."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from flows.commands.results.query import find_results
from flows.commands.tables import console, print_table
from sql.statistics.comparison import compare

ACCURACIES = ["depth", "variant", "task", "checkpoint", "items", "first", "second", "difference", "low", "high"]
FACTORS = ["depth", "variant", "task", "rule"]
LOSSES = ["depth", "variant", "tokens_first", "tokens_second", "loss_first", "loss_second", "difference"]


def compare_studies(options: argparse.Namespace) -> None:
    """Compare the studies that the command names, the further ones with the first; with `html`, write a page too."""
    (first, one), (second, other), *further = (
        find_results(name, None) for name in (options.first, options.second, *options.further)
    )
    others = [(second, options.second_study or other), *further]
    one = options.first_study or one
    for path, study in others:
        print_comparison(first, path, first_study=one, second_study=study)
    if options.html:
        from reports.page.comparing import write_comparison  # takes a second, which the tables need not wait for

        print(write_comparison([(first, one), *others], options.html))


def print_comparison(
    first: Path, second: Path, *, first_study: str | None = None, second_study: str | None = None
) -> None:
    """Compare two studies by their results files, with `sql.statistics.comparison`, and print the tables.

    Raises InputError where there is nothing to compare, or a file holds several studies and none is named.
    """
    found = compare(first, second, first_study=first_study, second_study=second_study)
    console.print(f"\n{found.verdict[0].upper()}{found.verdict[1:]}.\n", soft_wrap=True)
    console.print(
        "Accuracy on the same items: paired tests, p by Holm over all rows; low and high: 95 % of the difference"
    )
    shown = found.accuracies[ACCURACIES].assign(p=found.accuracies["adjusted_p"])
    print_table(shown.assign(changed=_marks(found.accuracies["changed"])))
    if len(found.factors):
        console.print("\nData-efficiency factors with their 95 % intervals; apart: the intervals do not overlap")
        sides = {side: [_factor(row, side) for row in found.factors.to_dict("records")] for side in ("first", "second")}
        print_table(found.factors[FACTORS].assign(**sides, apart=_marks(found.factors["apart"])))
    if len(found.losses):
        console.print("\nLoss on held-out documents at the end, in bits per byte; no test: there are no items to pair")
        print_table(found.losses[LOSSES])
    for note in found.notes:
        console.print(note, soft_wrap=True, highlight=False)
    console.print(
        "\nNoise of accuracies here is that of the items: trainings of one model with other seeds differ by more."
    )


def _marks(changed: pd.Series) -> list[str]:
    return ["yes" if mark else "" for mark in changed]


def _factor(row: dict, side: str) -> str:
    """Format a factor and its interval: 1.50 [1.20, 1.90]."""
    factor, low, high, bound = (row[f"{name}_{side}"] for name in ("factor", "low", "high", "bound"))
    if pd.isna(factor):
        return "-"
    text = f"{'' if pd.isna(bound) or bound == 'exact' else f'{bound} '}{factor:.2f}"
    return text if pd.isna(low) else f"{text} [{low:.2f}, {high:.2f}]"
