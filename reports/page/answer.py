"""Put the answer together: the page's first screen, and the section with the ratios behind the
answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dreamer_study.reports.data import StudyData, read_study, without_baseline
from dreamer_study.reports.page.blocks import (
    Block,
    details_block,
    drawing_block,
    queries,
    table_block,
)
from dreamer_study.reports.style.theme import Style, styles
from dreamer_study.reports.tables import ratios as ratio_tables
from dreamer_study.reports.tables.cells import Table
from dreamer_study.reports.tables.compared import compared as compared_table
from dreamer_study.reports.text import answer as answer_text
from dreamer_study.reports.text import weaknesses
from dreamer_study.reports.text.names import are_many, shortened, task_name
from dreamer_study.reports.text.ratios import leading, read_for
from dreamer_study.reports.text.tasks import tasks_in_words
from dreamer_study.reports.text.token_stream import mismatch
from dreamer_study.sql.names import AVERAGE

MOST_EXAMPLES = 4
SAID = (  # the frames of which the answer, and what makes it weak, are said
    "order",
    "ratios",
    "efficiency",
    "accuracy",
    "resources",
    "models",
    "runs",
    "counted",
    "tuning",
    "checkpoints",
    "training_curves",
    "mismatches",
    "cut_short",
    "elsewhere",
)


@dataclass(frozen=True)
class Answer:
    """What a study says: its answer in sentences, and what makes the answer weak.

    Many variants are ranked in tables. `second` is what other measures than the answer's say.
    """

    sentences: list[str]
    ranked: list[Block]
    second: list[str]
    warnings: list[str]


@dataclass(frozen=True)
class FirstScreen(Answer):
    """Hold what a reader sees before scrolling: the answer, the curves, what was compared.

    `examples` has a benchmark, what it asks, one of its questions, and the right answer to that.
    """

    drawing: list[Block]
    compared: list[Block]
    examples: list[tuple[str, str, str, str]]


def read_answer(database: Path, study_id: str) -> Answer:
    """Return the answer of a study."""
    return answer_of(read_study(database, study_id, SAID))


def answer_of(data: StudyData) -> Answer:
    """Return the answer of data that have been read already, with the frames of `SAID`."""
    return _answer(data, styles(data.variants))


def first_screen(data: StudyData, styles: Mapping[str, Style]) -> FirstScreen:
    """Put the first screen together."""
    config = data.config("study")
    compared = table_block(
        data, "resources models runs tuning", compared_table, config.get("remark") or "", styles
    )
    examples = []
    sentences = tasks_in_words(data)
    for task, (question, answer) in data.config("examples").items():
        sentence = sentences.get(task, "")
        examples.append((task_name(task), sentence, *shortened(question, answer)))
    drawing = drawing_block(
        data, "ratios curve loss_curve at_scores accuracy loss", "answer.answer", styles
    )
    answer = _answer(data, styles)
    return FirstScreen(
        sentences=answer.sentences,
        ranked=answer.ranked,
        second=answer.second,
        warnings=answer.warnings,
        drawing=[drawing],
        compared=compared,
        examples=examples[:MOST_EXAMPLES],
    )


def _answer(data: StudyData, styles: Mapping[str, Style]) -> Answer:
    """Say the answer, and what makes the answer weak.

    Where there is no answer: why, and what the study lacks.
    """
    chosen = leading(data.ratios)
    if chosen.empty:
        has_results = data.ratios["outdated"].any() or _has_ratios(data)
        weak = weaknesses.warnings(data, chosen) if has_results else weaknesses.gaps(data)
        second = [answer_text.direction(data.baseline, data.unit)] if _has_ratios(data) else []
        return Answer([_why_no_answer(data)], [], second, weak)
    only_task = len(set(data.ratios["task"]) - {AVERAGE}) == 1
    ranked = []
    for depth, rows in chosen.groupby("depth"):
        if len(rows) >= answer_text.RANKED_FROM:
            content = ratio_tables.ranked(chosen, styles, depth)
            ranked.append(Block("table", content, queries=queries(data, "ratios")))
    return Answer(
        sentences=answer_text.answers(
            chosen,
            only_task=only_task,
            unit=data.unit,
            elsewhere=set(data.elsewhere["variant"]),
        ),
        ranked=ranked,
        second=[
            answer_text.direction(data.baseline, data.unit),
            *answer_text.second(data, chosen, only_task=only_task),
        ],
        warnings=weaknesses.warnings(data, chosen),
    )


def _has_ratios(data: StudyData) -> bool:
    return bool(data.ratios[["ratio", "low", "high"]].notna().any(axis=None))


def answer_blocks(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the ratios with all that is known of each, at each score, and over the whole range."""
    data = data.without_repeats()
    tuned = weaknesses.rates_tuned(data)
    is_many = are_many(data.ratios["task"])
    headline = read_for(data.ratios) if is_many else data.ratios
    is_single = ~data.ratios.index.isin(headline.index)
    tables = []
    singles = []
    details = []
    means = []
    for depth in data.depths:
        tables += _ratio_table(data, headline, ratio_tables.ratios, styles, depth)
        details += _ratio_table(data, headline, ratio_tables.details, styles, depth, tuned)
        single = data.ratios[is_single]
        singles += _ratio_table(data, single, ratio_tables.single_tasks, styles, depth)
        of_means = read_for(data.mean_factors) if is_many else data.mean_factors
        content = ratio_tables.mean_ratios(of_means, styles, depth)
        if content.rows:
            means.append(Block("table", content, queries=queries(data, "mean_factors")))
    doubts = []
    unequal_streams = mismatch(data)
    if unequal_streams:
        doubts.append(Block("doubt", unequal_streams))
    if not tables:
        return doubts
    baseline = data.baseline
    text = (
        f"A ratio is the {data.unit} of a variant over those of {baseline} to equal scores:"
        " below 1 the variant needs fewer. It is the mean, in logarithms, over the upper fifth of"
        " the scores that both reached, so that neither the start of training nor the place of a"
        " single checkpoint weighs much. Where a variant ends below"
        f" {baseline}’s best, the ratio is for the scores that the variant reached."
    )
    return [
        *doubts,
        Block("prose", text),
        *([drawing_block(data, "ratios", "ratio_map.ratio_map", styles)] if is_many else []),
        drawing_block(data, "ratios", "efficiency.token_ratios", styles),
        drawing_block(data, "ratios elsewhere", "ability_map.where_yours_stand"),
        drawing_block(data, "ratios costs", "efficiency.cost_ratios", styles),
        *tables,
        *details,
        *details_block("Each benchmark in numbers", singles),
        *([] if is_many else [drawing_block(data, "ratios", "ratio_map.ratio_map", styles)]),
        drawing_block(data, "factor_by_target ratios", "targets.by_target", styles),
        *details_block("The mean over the whole range", means, brief=True),
    ]


def _ratio_table(
    data: StudyData, rows: pd.DataFrame, make: Callable[..., Table], *arguments: Any
) -> list[Block]:
    """Show a table of some of the ratios."""
    if rows.empty:
        return []
    content = make(rows, *arguments)
    return [Block("table", content, queries=queries(data, "ratios"))] if content.rows else []


def _why_no_answer(data: StudyData) -> str:
    baseline = data.baseline
    if data.ratios["outdated"].any():
        return (
            "There is no answer yet: results changed after the ratios were computed, and"
            " `dreamer intervals STUDY` computes them again."
        )
    if _has_ratios(data):
        return "There is no average over tasks, and so no one answer; the ratios stand below."
    if data.accuracy.empty:
        return "There is no answer yet: no accuracy has been measured."
    if baseline not in set(data.accuracy["variant"]):
        why = f"{baseline}, the baseline that the other models are compared with, has no accuracy"
    elif without_baseline(data.efficiency).empty:
        why = f"the study has only the baseline {baseline}, and no model to compare with it"
    else:
        why = f"no other model was evaluated at a depth and on a benchmark where {baseline} was"
    return f"There is no answer: {why}."
