"""Tabulate examples: a question, the right answer, and what each model answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from dreamer_study.reports.style.theme import Style, ordered, present
from dreamer_study.reports.tables.cells import Cell, Table, left, table, variant_head
from dreamer_study.reports.text.names import depth_name, ending, task_name
from dreamer_study.reports.text.numbers import NOTHING, listed, percent

LONGEST_QUESTION = 4000  # characters of a question in full
LONGEST_ANSWER = 1000
USUAL = 0.1  # an answer that a model gives to this share of all questions, or more, is named


def examples(
    rows: pd.DataFrame, usual: pd.DataFrame, styles: Mapping[str, Style], depth: int, task: str
) -> Table:
    """Tabulate the answers of the models of one depth to questions of a benchmark.

    Questions in which the models differ most come first. `rows` are those of `StudyData.examples`,
    `usual` those of `usual_answers`. The page's script reads the shares of seeds that are right
    from the notes below the answers.
    """
    rows = rows[(rows["depth"] == depth) & (rows["task"] == task)]
    usual = usual[(usual["depth"] == depth) & (usual["task"] == task)]
    shown = present(styles, rows)
    body = []
    items = []
    for _, answers in rows.groupby(["apart", "item_id"], sort=False):
        first = answers.iloc[0]
        by_variant = {row["variant"]: row for row in answers.to_dict("records")}
        cells = [
            Cell(ending(_text(first["question"]), 300), kind="long", scope="row"),
            ending(_text(first["gold"]), 60),
            *(_answer(by_variant.get(variant)) for variant in shown),
        ]
        body.append((task, cells))
        items.append(item_key(first))
    caption = (
        f"{task_name(task)}, {depth_name(depth).lower()}, at the last checkpoint: the answer of"
        " most seeds, and how many are right. Questions in which models differ most come"
        " first."
    )
    habits = [
        f"{row.variant} “{ending(row.text, 60)}” to {percent(row.share, 0)}"
        for row in ordered(usual, styles).itertuples()
        if row.share >= USUAL and row.variant in shown
    ]
    if habits:
        caption += (
            f" The answer that each gives most often, of {usual['items'].max():.0f} questions:"
            f" {listed(habits)}."
        )
    made = table(
        f"examples-{task}-{depth_name(depth, short=True)}",
        caption,
        [left("Question"), left("Right"), *(variant_head(variant, styles) for variant in shown)],
        body,
    )
    with_items = [replace(row, item=item) for row, item in zip(made.rows, items, strict=True)]
    return replace(made, rows=tuple(with_items))


def item_key(row: Mapping[str, Any]) -> str:
    """Name a question of a benchmark at a depth, as the page's address does: `4:gsm8k/17`."""
    task = row["task"]
    item = row["item_id"]
    inside = item if item.startswith(f"{task}/") else f"{task}/{item}"
    return f"{depth_name(row['depth'], short=True)}:{inside}"


def items_in_full(
    rows: pd.DataFrame, over_training: pd.DataFrame, styles: Mapping[str, Style]
) -> dict[str, Any]:
    """Return what the page shows of one question: all of it, the answers, and the way to them.

    `rows` are those of `StudyData.examples`, `over_training` those of `answers_over_training`: how
    many seeds were right at each checkpoint.
    """
    ways: dict[tuple[str, str], list[list[float]]] = {}
    for row in over_training.to_dict("records"):
        way = [float(row["tokens"]), float(row["right"]), int(row["seeds"])]
        ways.setdefault((item_key(row), row["variant"]), []).append(way)
    items: dict[str, Any] = {}
    for row in ordered(rows, styles).to_dict("records"):
        key = item_key(row)
        item = items.setdefault(
            key,
            {
                "task": task_name(row["task"]),
                "question": ending(_text(row["question"]), LONGEST_QUESTION),
                "gold": ending(_text(row["gold"]), LONGEST_ANSWER),
                "answers": [],
            },
        )
        answer = {
            "variant": row["variant"],
            "text": ending(_text(row["text"]), LONGEST_ANSWER),
            "right": row["share_right"] * row["seeds"],
            "seeds": int(row["seeds"]),
            "way": ways.get((key, row["variant"]), []),
        }
        item["answers"].append(answer)
    return items


def _answer(row: Mapping[str, object] | None) -> Cell:
    if row is None:
        return Cell(NOTHING)
    right = row["share_right"] * row["seeds"]
    kind = "left strong" if row["share_right"] > 0.5 else "left"
    return Cell(
        ending(_text(row["text"]), 60), note=f"{right:.3g} of {row['seeds']:.0f}", kind=kind
    )


def _text(text: object) -> str:
    """Return a text of the results; a dash for null, which is NaN beside texts."""
    return text if isinstance(text, str) and text else NOTHING
