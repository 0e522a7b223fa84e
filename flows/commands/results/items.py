"""`dreamer items`: when models learn the items of benchmarks, and the answer by difficulty."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

import pandas as pd

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.commands.results.printing import fitting, print_part, with_short_names
from dreamer_study.flows.commands.results.query import find_results, replicates_of
from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.reports.tables.difficulty import in_words
from dreamer_study.reports.text.numbers import counted, tokens
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.results import connect

MODEL = ["depth", "variant", "task"]
WHOLE = "dreamer sql STUDY 'FROM ratios_by_difficulty'"


def items(options: argparse.Namespace) -> None:
    """Compute learning times and ratios by difficulty, store them in the results, and print them.

    Of a results file every study counts. Raises InputError if no study has answers to single items.
    """
    database, wanted = find_results(options.study, options.root)
    chosen = replicates_of(database, wanted)
    # with scipy, for which a query need not wait
    from dreamer_study.sql.statistics.difficulty import compute_difficulty

    with closing(connect(database)) as connection:
        for study, replicates in chosen.items():
            compute_difficulty(connection, study, replicates=replicates)
        read = "from {} where study_id in (select unnest(?)) order by all"
        studies = [list(chosen)]
        ratios = connection.execute(read.format("ratios_by_difficulty"), studies).df()
        times = connection.execute(read.format("learning_times"), studies).df()
        variants = connection.execute("select study_id, variant from variants").df()
    if options.json:
        print_document(ratios=ratios, times=times)
        return
    for study in chosen:
        if len(chosen) > 1:
            console.print(f"\n{study}")
        of_study = times[times["study_id"] == study]
        _print(ratios[ratios["study_id"] == study], of_study)
        for variant in variants[variants["study_id"] == study]["variant"]:
            if variant not in set(of_study["variant"]):
                print_part(f"left out: {variant}, without answers to items at all checkpoints")


def _print(ratios: pd.DataFrame, times: pd.DataFrame) -> None:
    """Print the answer by difficulty of each variant, then how many items each model learned."""
    print_part("")
    averages = ratios[ratios["task"] == AVERAGE]
    leading = ratios if averages.empty else averages
    for (_, variant, task), rows in leading.groupby(MODEL, sort=False, dropna=False):
        print_part(in_words(variant, task, rows))
    print_part(
        "Easy, middle and hard are thirds of each benchmark's items, by the learning time of all"
        " runs together. The intervals are not corrected for their number."
    )
    if times.empty:
        return
    learned = pd.DataFrame(
        [
            _learned_row(model, rows)
            for model, rows in times.groupby(MODEL, sort=False, dropna=False)
        ]
    )
    shown = fitting(learned)
    print_table(with_short_names(shown))
    further = len(learned) - len(shown)
    if further:
        console.print(f"{counted(further, 'further row')}: {WHOLE}")


def _learned_row(model: Any, rows: pd.DataFrame) -> dict[str, object]:
    """Count the items that a model knew at its first checkpoint, has learned, and has not."""
    depth, variant, task = model
    states = rows["state"]
    # of all items: one that was never learned counts as later than any other
    order = rows["tokens"].where(states == "learned", states.map({"never": float("inf")})).fillna(0)
    middle = order.quantile(0.5, interpolation="higher")
    return {
        "depth": depth,
        "variant": variant,
        "task": task,
        "items": len(rows),
        "known at first": int((states == "at first").sum()),
        "learned": int((states == "learned").sum()),
        "never learned": int((states == "never").sum()),
        "median time": _middle(middle),
        "seeds": rows["seeds"].iloc[0],
    }


def _middle(middle: float) -> str:
    if middle == 0:
        return "before the first checkpoint"
    if middle == float("inf"):
        return "after the last checkpoint"
    return tokens(middle)
