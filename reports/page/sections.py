"""Put the sections of the report together in reading order, each a list of blocks that the template can set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas as pd
import yaml

from reports.data import AVERAGE, BASELINE, StudyData
from reports.figures import accuracy, balance, curation, depth_attention, efficiency, experts, loss, targets, training
from reports.figures.rendering import Figure
from reports.style.theme import Style, ordered
from reports.tables import curation as curation_tables
from reports.tables import efficiency as factor_tables
from reports.tables import results as result_tables
from reports.tables import runs as run_tables
from reports.tables.cells import Table
from reports.tables.hyperparameters import hyperparameters
from reports.text import token_stream
from reports.text.crossings import crossing
from reports.text.findings import Finding
from reports.text.limitations import limitations
from reports.text.mean_factors import headline, mean_finding
from reports.text.names import task_name
from reports.text.numbers import counted, listed, number, tokens

COMMIT = re.compile(r"\(([0-9a-f]{7,40})(\+changes)?\)")  # in a code version, where there is one
STUDY_ORDER = ("name", "data", "models", "training", "evaluation")


@dataclass(frozen=True)
class Block:
    """One part of a section: `kind` says how the template sets `content`; `label` heads code and details."""

    kind: str
    content: Any
    label: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with blocks below it; `name` is its anchor."""

    name: str
    title: str
    blocks: list[Block]


def sections(data: StudyData, styles: Mapping[str, Style]) -> list[Section]:
    """Return all sections that have content."""
    doubts = limitations(data)
    made = [
        Section("answer", "The answer", _answer(data, styles)),
        Section("accuracy", "Accuracy and loss against tokens", _accuracy(data, styles)),
        Section("results", "Results", _results(data, styles)),
        Section("depths", "Other depths at test time", _other_depths(data, styles)),
        Section("resources", "Resources", _resources(data, styles)),
        Section("training", "Training", _training(data, styles)),
        Section("data", "Data", _curation(data)),
        Section("inside", "Inside the models", _inside(data, styles)),
        Section("caveats", "How far to trust this", [Block("list", doubts)] if doubts else []),
        Section("reproduce", "Run it again", _reproduce(data)),
    ]
    return [section for section in made if section.blocks]


def _figure(content: Figure | None) -> list[Block]:
    return [Block("figure", content)] if content else []


def _table(content: Table) -> list[Block]:
    return [Block("table", content)] if content.rows else []


def _details(label: str, content: Table) -> list[Block]:
    """Fold a table away until asked for."""
    return [Block("details", _table(content), label)] if content.rows else []


def _answer(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the answer in words, then the mean factors as figures and tables, then the factors by the paper's rule."""
    compared = data.compared[data.compared["factor"].notna()]
    means = headline(data.mean_factors)
    if compared.empty and means.empty:
        return [Block("prose", _why_no_answer(data))]
    found = _findings(means, compared, styles)
    blocks = [
        Block("lead", " ".join(one.sentence for one in sorted(group, key=lambda one: one.undecided)))
        for _, group in groupby(found, lambda one: one.depth)
    ]
    blocks += [Block("doubt", text) for text in (token_stream.mismatch(data),) if text]
    blocks.append(Block("findings", [(one, styles[one.variant]) for one in found]))
    return [*blocks, *_mean_factors(data, styles), *_crossings(data, styles)]


def _findings(means: pd.DataFrame, compared: pd.DataFrame, styles: Mapping[str, Style]) -> list[Finding]:
    """Put one factor of each model into words: its mean factor, or the paper's rule where there is no mean factor."""
    task = _answered_task(compared)
    other = compared[compared["task"] == task].merge(means[["depth", "variant"]], how="left", indicator=True)
    other = other[other["_merge"] == "left_only"]
    rows = [(mean_finding, row) for row in means.to_dict("records")]
    rows += [(crossing, row) for row in other.to_dict("records")]
    places = ordered(pd.DataFrame([{"depth": row["depth"], "variant": row["variant"]} for _, row in rows]), styles)
    return [rows[place][0](rows[place][1]) for place in places.index]


def _answered_task(compared: pd.DataFrame) -> str:
    tasks = set(compared["task"]) - {AVERAGE}
    return tasks.pop() if len(tasks) == 1 else AVERAGE


def _mean_factors(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the mean factors as a figure and in tables, and the factor at each target."""
    drawn = _figure(efficiency.mean_factors(data.mean_factors, styles))
    if not drawn:
        return []
    text = (
        f"Each variant is compared with {BASELINE} of the same depth. At every value that both models reached, the "
        f"training tokens of {BASELINE} are divided by those of the variant; the factor is the mean of these ratios "
        "over the values (of their logarithms). Every checkpoint counts, and every seed."
    )
    tables = [
        block for depth in data.depths for block in _table(factor_tables.mean_factors(data.mean_factors, styles, depth))
    ]
    return [Block("prose", text), *drawn, *tables, *_figure(targets.by_target(data.factor_by_target, styles))]


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
    blocks += _figure(efficiency.crossing_factors(data.efficiency, styles))
    for depth in data.depths:
        blocks += _table(factor_tables.factors(data.efficiency, styles, depth))
    by_rule = {"First crossing": data.efficiency, "Interpolated": data.interpolated}
    blocks += _table(factor_tables.rules(by_rule, styles, task))
    if several:
        blocks += _details("By every rule on every benchmark", factor_tables.rules(by_rule, styles))
    return blocks


def _why_no_answer(data: StudyData) -> str:
    if data.accuracy.empty:
        return "There is no answer yet: the results hold no accuracy of any checkpoint."
    if BASELINE not in set(data.accuracy["variant"]):
        return f"There is no answer: no accuracy of the baseline {BASELINE}, with which the others would be compared."
    if data.compared.empty:
        return f"There is no answer: the study has no variant besides the baseline {BASELINE}."
    return f"There is no answer: no variant has accuracies at a depth and on a benchmark where {BASELINE} has them."


def _accuracy(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show accuracy curves, a figure for each depth, their numbers, and the curves of the losses."""
    blocks, twice = [], token_stream.seen_twice_from(data.checkpoints)
    frames = (data.curve, data.accuracy, data.efficiency, data.raw_accuracy)
    for depth in data.depths:
        drawn = _figure(accuracy.accuracy(*frames, styles, depth, twice))
        numbers = result_tables.curve_numbers(data.curve, styles, depth)
        blocks += [*drawn, *_details("The numbers of this figure", numbers)] if drawn else []
        blocks += _figure(loss.task_loss(data.loss_curve, data.loss, styles, depth))
    return blocks


def _results(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the paper's Table 2, perplexity, and how each benchmark was measured."""
    blocks = _table(result_tables.results(data.results, styles))
    blocks += _figure(training.perplexity(data.perplexity, styles))
    measured = _table(result_tables.benchmarks(data.accuracy, data.loss, data.perplexity, data.versions))
    return [*blocks, Block("heading", "Benchmarks"), *measured] if measured else blocks


def _other_depths(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the accuracy of recurrent models at other depths than they were trained at."""
    drawn = _figure(accuracy.accuracy_at_other_depths(data.other_depths, styles))
    if not drawn:
        return []
    text = (
        "A recurrent model can be run at another depth than it was trained at, with no further training. Whether it "
        "gains by that is one of the paper’s open questions."
    )
    numbers = result_tables.other_depths(data.other_depths, styles)
    return [Block("prose", text), *drawn, *_details("The numbers of this figure", numbers)]


def _resources(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show what the models cost, what each goal costs, and the hyperparameters."""
    return [
        *_table(result_tables.resources(data.resources, styles)),
        *_table(factor_tables.compute(data.compute, styles)),
        *_figure(targets.cost_by_target(data.cost_by_target, styles)),
        *_details("Hyperparameters", hyperparameters(data.models, data.section("training"), styles)),
    ]


def _training(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show loss curves, epochs and order of the token stream, and the runs."""
    texts = [text for text in (token_stream.epochs(data), token_stream.streams(data)) if text]
    return [
        *_figure(training.loss(data.training_curves, styles)),
        *_figure(training.course(data.training_curves, styles)),
        *(Block("prose", text) for text in texts),
        *_table(run_tables.runs(data.runs, styles)),
    ]


def _curation(data: StudyData) -> list[Block]:
    """Show the funnel from raw rows to packed tokens."""
    if data.funnel.empty:
        return []
    read, kept = data.funnel["documents"].iloc[0], data.funnel["kept"].iloc[-1]
    sources = sorted(data.curation["source"].dropna().unique())
    packed = token_stream.corpus_tokens(data)
    text = (
        f"Of {number(read)} documents from {counted(len(sources), 'source')} ({listed(sources)}), "
        f"{number(kept)} went into training{f' as {tokens(packed)} tokens' if packed else ''}."
    )
    return [
        Block("prose", text),
        *_table(curation_tables.sources(data.sources)),
        *_figure(curation.kept_and_dropped(data.funnel, data.curation)),
        *_figure(curation.reasons(data.funnel, data.curation)),
        *_table(curation_tables.funnel(data.funnel, data.curation)),
        *_details("Source by source", curation_tables.funnel_by_source(data.funnel_by_source)),
    ]


def _inside(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show depth attention and the use of experts, where they were observed (section 4.2 of the paper)."""
    blocks = _figure(depth_attention.depth_attention(data.attention, data.runs, styles))
    if len(data.gini):
        blocks += [
            Block("heading", "Balance of the experts"),
            Block("prose", balance.in_words(data.diversity, styles)),
            *_table(run_tables.experts(data.gini, styles)),
            *_figure(balance.lorenz(data.lorenz, data.gini, data.runs, styles)),
            *_figure(balance.balance(data.gini, data.diversity, styles)),
        ]
    observed = (data.selections, data.runs, styles)
    return [*blocks, *_figure(experts.selections(*observed)), *_figure(experts.experts_of_depths(*observed))]


def study_file(data: StudyData) -> str:
    """Return the study's configuration as the YAML file that runs it again; empty when the results hold none."""
    study = data.config.get("study")
    if not isinstance(study, dict):
        return ""
    in_order = {key: study[key] for key in (*STUDY_ORDER, *study) if key in study}
    return yaml.safe_dump(in_order, sort_keys=False, allow_unicode=True, width=100)


def _reproduce(data: StudyData) -> list[Block]:
    """Show versions, commands and the study file."""
    version, study = data.study.get("code_version"), study_file(data)
    commit = COMMIT.search(version or "")
    packages = data.config.get("packages")
    packages = packages if isinstance(packages, dict) else {}
    blocks = _table(run_tables.versions(version, packages, data.evaluated_with))
    if study:
        commands = [f"git checkout {commit[1]}"] if commit else []
        commands += ["dreamer run study.yaml", "dreamer sql study.yaml 'FROM mean_factors'"]
        blocks.append(Block("code", "\n".join(commands), "Commands"))
        if commit and commit[2]:
            blocks.append(Block("prose", "The code had changes that are not in that commit."))
        blocks.append(Block("code", study, "study.yaml, with every default written out; it lies beside this page"))
    elif data.study.get("config"):
        blocks.append(Block("code", str(data.study["config"]), "The configuration as it was entered"))
    return blocks or [Block("prose", "The results hold neither the configuration nor the code version of this study.")]
