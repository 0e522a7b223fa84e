"""Put the answer together: the page's first screen, and the section with the ratios behind the
answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dreamer_study.reports.data import StudyData, read_study, without_baseline
from dreamer_study.reports.page.blocks import Block, details_block, drawing_block, table_block
from dreamer_study.reports.style.theme import Style, ordered, styles
from dreamer_study.reports.tables import efficiency as factor_tables
from dreamer_study.reports.tables.compared import compared as compared_table
from dreamer_study.reports.text import answer as answer_text
from dreamer_study.reports.text.mean_factors import headline
from dreamer_study.reports.text.names import shortened, task_name
from dreamer_study.reports.text.standing import both_ends, standing
from dreamer_study.reports.text.token_stream import mismatch
from dreamer_study.sql.names import AVERAGE

MOST_EXAMPLES = 4
SAID = (  # the frames of which the answer, and what makes it weak, are said
    "order",
    "mean_factors",
    "efficiency",
    "accuracy",
    "resources",
    "models",
    "runs",
    "checkpoints",
    "training_curves",
    "mismatches",
    "cut_short",
)


@dataclass(frozen=True)
class FirstScreen:
    """Hold what a reader sees before scrolling: the answer, what makes it weak, the curves, what
    was compared.

    `examples` has a benchmark, one of its questions, and the right answer to that.
    """

    sentences: list[str]
    ends: list[str]
    warnings: list[str]
    drawing: list[Block]
    compared: list[Block]
    examples: list[tuple[str, str, str]]


def read_answer(database: Path, study_id: str) -> tuple[list[str], list[str]]:
    """Return the sentences of a study's answer, and the warnings beside the answer."""
    data = read_study(database, study_id, SAID)
    return _said(data, styles(data.variants))


def first_screen(data: StudyData, styles: Mapping[str, Style]) -> FirstScreen:
    """Put the first screen together."""
    config = data.config("study")
    compared = table_block(
        data, "resources models runs tuning", compared_table, config.get("remark") or "", styles
    )
    examples = []
    for task, (question, answer) in data.config("examples").items():
        examples.append((task_name(task), *shortened(question, answer)))
    drawing = drawing_block(
        data, "mean_factors curve loss_curve factor_by_target", "answer.answer", styles
    )
    sentences, warnings = _said(data, styles)
    ends = both_ends(ordered(headline(data.mean_factors), styles), data.factor_by_target)
    return FirstScreen(
        sentences=sentences,
        ends=ends,
        warnings=warnings,
        drawing=[drawing],
        compared=compared,
        examples=examples[:MOST_EXAMPLES],
    )


def _said(data: StudyData, styles: Mapping[str, Style]) -> tuple[list[str], list[str]]:
    """Say the answer, and what makes the answer weak.

    Where there is no answer: why, and what the study lacks.
    """
    means, others = _leading(data, styles)
    if means.empty and others.empty:
        return [_why_no_answer(data)], answer_text.gaps(data)
    return answer_text.answers(means, others), answer_text.warnings(data, means, others)


def answer_blocks(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the mean ratios, how sure they are, and the ratio at each value."""
    tables = []
    for depth in data.depths:
        tables += table_block(data, "mean_factors", factor_tables.mean_factors, styles, depth)
    doubts = []
    unequal_streams = mismatch(data)
    if unequal_streams:
        doubts.append(Block("doubt", unequal_streams))
    if not tables:
        return doubts
    text = (
        f"A ratio is the training tokens of a variant over those of {data.baseline} of the same"
        " depth, at every value that both reached; the mean is over these values, in logarithms."
        " It counts every checkpoint and seed. Below 1 the variant needs fewer tokens. The column"
        " factor in SQL, and the paper’s data efficiency, are 1 over it."
    )
    drawing = drawing_block(data, "mean_factors", "efficiency.mean_factors", styles)
    by_target = drawing_block(data, "factor_by_target", "targets.by_target", styles)
    standings = standing(data)
    sure = [Block("list", standings)] if standings else []
    return [
        *doubts,
        Block("prose", text),
        drawing,
        *sure,
        by_target,
        *details_block("In numbers", tables, brief=True),
    ]


def _leading(data: StudyData, styles: Mapping[str, Style]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the mean factors that lead, and factors of the models that have no mean factor.

    The latter are by the paper's rule.
    """
    means = headline(data.mean_factors)
    compared = without_baseline(data.efficiency[data.efficiency["factor"].notna()])
    on_task = compared[compared["task"] == _answered_task(compared)]
    with_mean = pd.MultiIndex.from_frame(means[["depth", "variant"]])
    models = pd.MultiIndex.from_frame(on_task[["depth", "variant"]])
    others = on_task[~models.isin(with_mean)]
    return ordered(means, styles), ordered(others, styles)


def _answered_task(compared: pd.DataFrame) -> str:
    tasks = set(compared["task"]) - {AVERAGE}
    return tasks.pop() if len(tasks) == 1 else AVERAGE


def _why_no_answer(data: StudyData) -> str:
    baseline = data.baseline
    if data.accuracy.empty:
        if without_baseline(data.mean_factors)["factor"].notna().any():
            return "There is no accuracy, and so no average; the ratios by loss stand below."
        return "There is no answer yet: no accuracy has been measured."
    if baseline not in set(data.accuracy["variant"]):
        why = f"{baseline}, the baseline that the other models are compared with, has no accuracy"
    elif without_baseline(data.efficiency).empty:
        why = f"the study has only the baseline {baseline}, and no model to compare with it"
    else:
        why = f"no other model was evaluated at a depth and on a benchmark where {baseline} was"
    return f"There is no answer: {why}."
