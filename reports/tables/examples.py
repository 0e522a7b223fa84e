"""Tabulate examples: a question, the right answer, and what each model answers."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dreamer_study.reports.style.theme import Style, ordered, present
from dreamer_study.reports.tables.cells import Cell, Table, left, table, variant_head
from dreamer_study.reports.text.names import depth_name, ending, task_name
from dreamer_study.reports.text.numbers import NOTHING, listed, percent

USUAL = 0.1  # an answer that a model gives to this share of all questions, or more, is told


def examples(
    rows: pd.DataFrame, usual: pd.DataFrame, styles: Mapping[str, Style], depth: int, task: str
) -> Table:
    """Tabulate the answers of the models of one depth to questions of a benchmark, those they
    differ in most first.

    `rows` are those of `StudyData.examples`, `usual` those of `usual_answers`. The page's script
    reads the shares of seeds that are right from the notes below the answers.
    """
    rows, usual = (
        frame[(frame["depth"] == depth) & (frame["task"] == task)] for frame in (rows, usual)
    )
    shown, body = present(styles, rows), []
    for _, answers in rows.groupby(["apart", "item_id"], sort=False):
        first, by_variant = (
            answers.iloc[0],
            {row["variant"]: row for row in answers.to_dict("records")},
        )
        cells = [
            Cell(ending(_words(first["question"]), 300), kind="long", scope="row"),
            ending(_words(first["gold"]), 60),
        ]
        body.append((task, cells + [_answer(by_variant.get(variant)) for variant in shown]))
    habits = [
        f"{row.variant} “{ending(row.text, 60)}” to {percent(row.share, 0)}"
        for row in ordered(usual, styles).itertuples()
        if row.share >= USUAL and row.variant in shown
    ]
    often = (
        f" The answer that each gives most often, of {usual['items'].max():.0f} questions:"
        f" {listed(habits)}."
    )
    return table(
        f"examples-{task}-{depth_name(depth, short=True)}",
        f"{task_name(task)}, {depth_name(depth).lower()}, at the last checkpoint: the answer of"
        " most seeds, and how many are right. Questions in which models differ most come"
        f" first.{often * bool(habits)}",
        [left("Question"), left("Right"), *(variant_head(variant, styles) for variant in shown)],
        body,
    )


def _answer(row: Mapping[str, object] | None) -> Cell:
    if row is None:
        return Cell(NOTHING)
    right, kind = row["share_right"] * row["seeds"], "left" + " strong" * (row["share_right"] > 0.5)
    return Cell(
        ending(_words(row["text"]), 60), note=f"{right:.3g} of {row['seeds']:.0f}", kind=kind
    )


def _words(text: object) -> str:
    """Return a text of the results, a dash where there is none (null, which is NaN beside
    texts)."""
    return text if isinstance(text, str) and text else NOTHING
