"""Put the answer together: the page's first screen, and the section with the factors behind the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from reports.data import StudyData
from reports.page.blocks import Block, drawing_block, table_block
from reports.style.theme import Style, ordered
from reports.tables import efficiency as factor_tables
from reports.text import answer as answer_text
from reports.text.crossings import crossing
from reports.text.mean_factors import headline, mean_finding
from reports.text.names import task_name
from reports.text.numbers import listed
from reports.text.standing import standing
from reports.text.token_stream import mismatch
from sql.names import AVERAGE


@dataclass(frozen=True)
class FirstScreen:
    """Hold what a reader sees before scrolling: a sentence for each depth, what makes them weak, and the curves."""

    sentences: list[str]
    warnings: list[str]
    drawing: list[Block]


def first_screen(data: StudyData, styles: Mapping[str, Style]) -> FirstScreen:
    """Put the first screen together; where there is no answer, say why, and what the study lacks."""
    means, others = _leading(data, styles)
    if means.empty and others.empty:
        return FirstScreen([_why_no_answer(data)], answer_text.gaps(data), [])
    return FirstScreen(
        answer_text.answers(means, others),
        answer_text.warnings(data, means, others),
        [drawing_block(data, "mean_factors curve loss_curve factor_by_target models", "answer.answer", styles)],
    )


def answer_blocks(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show one factor of each model large, then all mean factors, then the factors by the paper's rule."""
    means, others = _leading(data, styles)
    found = [mean_finding(row) for row in means.to_dict("records")]
    found += [crossing(row) for row in others.to_dict("records")]
    if not found:
        return []
    models = pd.DataFrame([{"depth": one.depth, "variant": one.variant} for one in found])
    boxes = [(found[i], styles[found[i].variant]) for i in ordered(models, styles).index]
    blocks = [Block("doubt", text) for text in (mismatch(data),) if text]
    blocks.append(Block("findings", boxes))
    blocks += [Block("list", texts) for texts in (standing(data),) if texts]
    return [*blocks, *_mean_factors(data, styles), *_crossings(data, styles)]


def _leading(data: StudyData, styles: Mapping[str, Style]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the mean factors that lead, and by the paper's rule the factors of the models that have no mean factor."""
    means = headline(data.mean_factors)
    compared = data.compared[data.compared["factor"].notna()]
    others = compared[compared["task"] == _answered_task(compared)]
    led = pd.MultiIndex.from_frame(means[["depth", "variant"]])
    others = others[~pd.MultiIndex.from_frame(others[["depth", "variant"]]).isin(led)]
    return ordered(means, styles), ordered(others, styles)


def _answered_task(compared: pd.DataFrame) -> str:
    tasks = set(compared["task"]) - {AVERAGE}
    return tasks.pop() if len(tasks) == 1 else AVERAGE


def _mean_factors(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the mean factors as a figure and in tables, and the factor at each target."""
    text = (
        f"Each variant is compared with {data.baseline} of the same depth. At every value that both models reached, "
        f"the training tokens of {data.baseline} are divided by those of the variant; the factor is the mean of these "
        "ratios over the values (of their logarithms). Every checkpoint counts, and every seed."
    )
    tables = [
        block
        for depth in data.depths
        for block in table_block(data, "mean_factors", factor_tables.mean_factors, styles, depth)
    ]
    if not tables:
        return []
    drawing = drawing_block(data, "mean_factors", "efficiency.mean_factors", styles)
    by_target = drawing_block(data, "factor_by_target", "targets.by_target", styles)
    return [Block("prose", text), drawing, *tables, by_target]


def _crossings(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the factors by the paper's rule in words, as a figure and in tables."""
    compared = data.compared[data.compared["factor"].notna()]
    if compared.empty:
        return []
    task = _answered_task(compared)
    averaged = sorted((task_name(name) for name in data.averaged["task"]), key=str.lower)
    what = f"the average of {listed(averaged)} (a family of tasks counts once)" if task == AVERAGE else task_name(task)
    text = (
        f"Each variant is compared with {data.baseline} of the same depth. The goal is the best accuracy of "
        f"{data.baseline} over its checkpoints, on {what}. The factor is the number of training tokens after which "
        f"{data.baseline} had it, over the number after which the variant had it."
    )
    found = [crossing(row) for row in ordered(compared[compared["task"] == task], styles).to_dict("records")]
    blocks = [Block("heading", "By the paper’s rule"), Block("prose", text)]
    blocks.append(Block("list", [" ".join((one.sentence, *one.doubts)) for one in found]))
    blocks.append(drawing_block(data, "efficiency", "efficiency.crossing_factors", styles))
    for depth in data.depths:
        blocks += table_block(data, "efficiency", factor_tables.factors, styles, depth)
    return blocks


def _why_no_answer(data: StudyData) -> str:
    baseline = data.baseline
    if data.accuracy.empty:
        return "There is no answer yet: no accuracy has been measured."
    if baseline not in set(data.accuracy["variant"]):
        return f"There is no answer: {baseline}, the baseline that the other models are compared with, has no accuracy."
    if data.compared.empty:
        return f"There is no answer: the study has only the baseline {baseline}, and no model to compare with it."
    return f"There is no answer: no other model was evaluated at a depth and on a benchmark where {baseline} was."
