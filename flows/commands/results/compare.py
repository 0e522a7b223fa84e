"""`dreamer compare`: print what changed beyond noise between two studies, the verdict first."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.commands.results.on_other_data import compare_on_other_data
from dreamer_study.flows.commands.results.over import compare_sizes
from dreamer_study.flows.commands.results.printing import print_part
from dreamer_study.flows.commands.results.query import find_results, has_place
from dreamer_study.flows.commands.tables import console
from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.tables.changes import changes
from dreamer_study.reports.text.numbers import counted
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.statistics.comparability import SIDES
from dreamer_study.sql.statistics.comparison import Comparison, compare, study_of


def compare_studies(options: argparse.Namespace) -> None:
    """Compare the studies that the command names, and print the tables.

    Without `all` the rows are those that changed, and the ratios of the average and of
    held-out losses. Raises InputError where there is nothing to compare, or a file holds several
    studies and none is named.
    """
    _check_forms(options)
    if options.over:
        compare_sizes(options)
    elif options.tokens:
        compare_on_other_data(options)
    else:
        _compare_two(options)


def _compare_two(options: argparse.Namespace) -> None:
    """Compare two studies test by test, and print the tables."""
    if options.more:
        raise InputError(
            f"compare takes two studies, and got {2 + len(options.more)}; with --over SIZE it takes"
            " one for each size of the models, with --tokens one for each set of data"
        )
    first, first_study = _find(options.first, options.root)
    second, second_study = _find(options.second, options.root)
    if options.root and (has_place(options.first) and has_place(options.second)):
        raise InputError(
            f"--root {options.root}: {options.first} and {options.second} say where they are; leave"
            " it out"
        )
    names = (options.first_study or first_study, options.second_study or second_study)
    comparison = compare(first, second, first_study=names[0], second_study=names[1])
    if options.json:
        sides = {
            side: {"study": study_of(path, name), "results": path.resolve()}
            for side, path, name in zip(SIDES, (first, second), names, strict=True)
        }
        print_document(
            verdict=comparison.verdict,
            **sides,
            accuracies=comparison.accuracies,
            ratios=comparison.ratios,
            losses=comparison.losses,
            notes=comparison.notes,
        )
        return
    console.print(f"\n{comparison.verdict[0].upper()}{comparison.verdict[1:]}.\n")
    for side, path, name in zip(SIDES, (first, second), names, strict=True):
        console.print(f"{side:<8}{study_of(path, name)}, {path}")
    console.print()
    shown = comparison if options.all else _only_changed(comparison)
    for table in changes(shown):
        if table.rows:
            print_part(table)
    for note in comparison.notes:
        console.print(note)
    accuracies = len(comparison.accuracies) - len(shown.accuracies)
    ratios = len(comparison.ratios) - len(shown.ratios)
    if accuracies or ratios:
        left_out = f"{counted(accuracies, 'row')} of accuracies, {ratios:,} of ratios"
        console.print(f"Not shown, because unchanged: {left_out}; --all prints them.")
    console.print(
        "Noise of accuracies is that of seeds and items; with one seed on either side there is no"
        " test."
    )


def _check_forms(options: argparse.Namespace) -> None:
    """Raise InputError for options of two forms of comparison, or of another form."""
    if options.over and options.tokens:
        raise InputError("--over and --tokens are two comparisons; give one of them")
    if options.csv and not (options.tokens or options.over):
        raise InputError("--csv belongs to --over or --tokens; give one of them too")
    for name, form in (("despite_differences", "tokens"), ("plot", "over")):
        if getattr(options, name) and not getattr(options, form):
            option = name.replace("_", "-")
            raise InputError(f"--{option} belongs to --{form}; give --{form} too")


def _find(name: str, root: str | None) -> tuple[Path, str | None]:
    """Find the results of one side; `root` is for a side that is named by a preset or a file."""
    return find_results(name, None if has_place(name) else root)


def _only_changed(comparison: Comparison) -> Comparison:
    """Keep what changed beyond noise, and the ratios of the average and of held-out losses."""
    accuracies = comparison.accuracies
    ratios = comparison.ratios
    is_of_answer = ratios["rule"].astype(str).str.startswith("top")
    is_headline = is_of_answer & ratios["task"].isin([AVERAGE, *comparison.losses["task"]])
    return replace(
        comparison,
        accuracies=accuracies[accuracies["changed"]],
        ratios=ratios[ratios["apart"] | is_headline],
    )
