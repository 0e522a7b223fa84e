"""Put the answer together: the page's first screen, and the section with the factors behind the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from reports.data import AVERAGE, BASELINE, StudyData
from reports.figures import answer as answer_figure
from reports.figures import efficiency, targets
from reports.figures.rendering import Figure
from reports.page.blocks import Block, details_block, figure_block, table_block
from reports.style.theme import Style, ordered
from reports.tables import efficiency as factor_tables
from reports.text import answer as answer_text
from reports.text.crossings import crossing
from reports.text.mean_factors import headline, mean_finding
from reports.text.names import task_name
from reports.text.numbers import listed
from reports.text.token_stream import mismatch


@dataclass(frozen=True)
class FirstScreen:
    """What a reader sees before scrolling: a sentence for each depth, what makes them weak, and the curves."""

    sentences: list[str]
    warnings: list[str]
    figure: Figure | None


def first_screen(data: StudyData, styles: Mapping[str, Style]) -> FirstScreen:
    """Put the first screen together; the sentence is why there is no answer where there is none."""
    means, others = _leading(data, styles)
    if means.empty and others.empty:
        return FirstScreen([_why_no_answer(data)], [], None)
    return FirstScreen(
        [sentence for _, sentence in answer_text.answers(means, others)],
        answer_text.warnings(data, means, others),
        answer_figure.answer(means, mean_curves(data), data.factor_by_target, styles),
    )


def mean_curves(data: StudyData) -> pd.DataFrame:
    """Return the curves of accuracy and of loss in one frame, with `metric` and `value`."""
    accuracies = data.curve.rename(columns={"accuracy": "value"}).assign(metric="accuracy")
    return pd.concat([accuracies, data.loss_curve.assign(metric="loss")])


def answer_blocks(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show one factor of each model large, then all mean factors, then the factors by the paper's rule."""
    means, others = _leading(data, styles)
    rows = [(mean_finding, row) for row in means.to_dict("records")]
    rows += [(crossing, row) for row in others.to_dict("records")]
    if not rows:
        return []
    models = pd.DataFrame([{"depth": row["depth"], "variant": row["variant"]} for _, row in rows])
    found = [rows[place][0](rows[place][1]) for place in ordered(models, styles).index]
    blocks = [Block("doubt", text) for text in (mismatch(data),) if text]
    blocks.append(Block("findings", [(one, styles[one.variant]) for one in found]))
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
    drawn = figure_block(efficiency.mean_factors(data.mean_factors, styles))
    if not drawn:
        return []
    text = (
        f"Each variant is compared with {BASELINE} of the same depth. At every value that both models reached, the "
        f"training tokens of {BASELINE} are divided by those of the variant; the factor is the mean of these ratios "
        "over the values (of their logarithms). Every checkpoint counts, and every seed."
    )
    tables = [
        block
        for depth in data.depths
        for block in table_block(factor_tables.mean_factors(data.mean_factors, styles, depth))
    ]
    return [Block("prose", text), *drawn, *tables, *figure_block(targets.by_target(data.factor_by_target, styles))]


def _crossings(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the factors by the paper's rule in words, as a figure and in tables."""
    compared = data.compared[data.compared["factor"].notna()]
    if compared.empty:
        return []
    task, several = _answered_task(compared), compared["task"].nunique() > 2
    averaged = sorted((task_name(name) for name in data.averaged["task"]), key=str.lower)
    what = f"the average of {listed(averaged)}" if task == AVERAGE else task_name(task)
    text = (
        f"Each variant is compared with {BASELINE} of the same depth. The goal is the best accuracy of {BASELINE} over "
        f"its checkpoints, on {what}. The factor is the number of training tokens after which {BASELINE} had it, over "
        "the number after which the variant had it."
    )
    found = [crossing(row) for row in ordered(compared[compared["task"] == task], styles).to_dict("records")]
    blocks = [Block("heading", "By the paper’s rule"), Block("prose", text)]
    blocks.append(Block("list", [" ".join((one.sentence, *one.doubts)) for one in found]))
    blocks += figure_block(efficiency.crossing_factors(data.efficiency, styles))
    for depth in data.depths:
        blocks += table_block(factor_tables.factors(data.efficiency, styles, depth))
    by_rule = {factor_tables.FIRST: data.efficiency, factor_tables.INTERPOLATED: data.interpolated}
    blocks += table_block(factor_tables.rules(by_rule, styles, task))
    if several:
        blocks += details_block("By every rule on every benchmark", factor_tables.rules(by_rule, styles))
    return blocks


def _why_no_answer(data: StudyData) -> str:
    if data.accuracy.empty:
        return "There is no answer yet: the results hold no accuracy of any checkpoint."
    if BASELINE not in set(data.accuracy["variant"]):
        return f"There is no answer: no accuracy of the baseline {BASELINE}, with which the others would be compared."
    if data.compared.empty:
        return f"There is no answer: the study has no variant besides the baseline {BASELINE}."
    return f"There is no answer: no variant has accuracies at a depth and on a benchmark where {BASELINE} has them."
