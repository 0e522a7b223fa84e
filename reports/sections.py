"""The sections of the report in reading order, each a list of blocks that the template knows how to set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas as pd
import yaml

from reports import depths, figures, funnel, insides, listings, stream, tables
from reports.caveats import caveats
from reports.drawing import Figure
from reports.rows import Rows
from reports.tables import Table, ordered
from reports.theme import BASELINE, Style
from reports.words import (
    AVERAGE,
    counted,
    depth_name,
    finding,
    lead,
    listed,
    number,
    task_name,
    tokens,
)

COMMIT = re.compile(r"\(([0-9a-f]{7,40})(\+changes)?\)")  # in a code version, where there is one
STUDY_ORDER = ("name", "data", "models", "training", "evaluation")


@dataclass(frozen=True)
class Block:
    """One piece of a section: `kind` says how the template sets `content`; `label` heads code and details."""

    kind: str
    content: Any
    label: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with blocks below it; `name` is its anchor."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def prose(text: str) -> Block:
    return Block("prose", text)


def table(content: Table) -> list[Block]:
    """The table, or nothing when it has no rows."""
    return [Block("table", content)] if content.rows else []


def details(label: str, *content: Table) -> list[Block]:
    """Tables that are folded away until asked for."""
    inner = tuple(block for one in content for block in table(one))
    return [Block("details", inner, label)] if inner else []


def figure(content: Figure | None) -> list[Block]:
    return [Block("figure", content)] if content else []


def sections(rows: Rows, styles: Mapping[str, Style]) -> list[Section]:
    """All sections that have something to say."""
    made = [
        Section("answer", "The answer", tuple(answer(rows, styles))),
        Section("accuracy", "Accuracy against tokens", tuple(accuracy(rows, styles))),
        Section("results", "Results", tuple(results(rows, styles))),
        Section("depths", "Other depths at test time", tuple(other_depths(rows, styles))),
        Section("resources", "Resources", tuple(resources(rows, styles))),
        Section("training", "Training", tuple(training(rows, styles))),
        Section("data", "Data", tuple(data(rows))),
        Section("inside", "Inside the models", tuple(inside(rows, styles))),
        Section("caveats", "How far to trust this", tuple(doubts(rows))),
        Section("reproduce", "Run it again", tuple(reproduce(rows))),
    ]
    return [section for section in made if section.blocks]


def answer(rows: Rows, styles: Mapping[str, Style]) -> list[Block]:
    """The factors on the average in words, then all of them as a figure and as tables."""
    compared = rows.efficiency[rows.efficiency["variant"] != BASELINE]
    if compared["factor"].isna().all():
        return [prose(_why_no_answer(rows, compared))]
    tasks = sorted(set(compared["task"]) - {AVERAGE}, key=task_name)
    task = tasks[0] if len(tasks) == 1 else AVERAGE
    averaged = sorted((task_name(one) for one in rows.averaged["task"]), key=str.lower)
    what = task_name(task) if len(tasks) == 1 else f"the average of {listed(averaged)}"
    headline = tables.ordered(compared[compared["task"] == task], styles)
    found = [finding(row) for row in headline.to_dict("records")]
    blocks = [
        *[Block("lead", lead(list(group), task)) for _, group in groupby(found, lambda one: one.depth)],
        *[Block("doubt", text) for text in (stream.mismatch(rows),) if text],
        Block("findings", tuple((one, styles[one.variant]) for one in found)),
        prose(
            f"Each variant is compared with {BASELINE} of the same depth. The goal is the best accuracy of {BASELINE} "
            f"over its checkpoints, on {what}. The factor is the number of training tokens after which {BASELINE} had "
            "it, over the number after which the variant had it."
        ),
        *figure(figures.factors(rows.efficiency, styles)),
    ]
    for depth in rows.depths:
        blocks += table(tables.factors(rows.efficiency, styles, depth))
    by_rule = {"First crossing": rows.efficiency, "Interpolated": rows.interpolated, "Fitted": rows.fitted}
    blocks += [Block("heading", "The same by other rules"), *table(tables.rules(by_rule, rows.fits, styles, task))]
    if len(tasks) > 1:
        blocks += details("By every rule on every benchmark", tables.rules(by_rule, rows.fits, styles))
    return blocks


def _why_no_answer(rows: Rows, compared: pd.DataFrame) -> str:
    if rows.accuracy.empty:
        return "There is no answer yet: the results hold no accuracy of any checkpoint."
    if BASELINE not in set(rows.accuracy["variant"]):
        return f"There is no answer: no accuracy of the baseline {BASELINE}, with which the others would be compared."
    if compared.empty:
        return f"There is no answer: the study has no variant besides the baseline {BASELINE}."
    return f"There is no answer: no variant has accuracies at a depth and on a benchmark where {BASELINE} has them."


def accuracy(rows: Rows, styles: Mapping[str, Style]) -> list[Block]:
    """Accuracy curves, a figure for each depth, and their numbers."""
    blocks, twice = [], stream.seen_twice_from(rows.checkpoints)
    for depth in rows.depths:
        drawn = figures.accuracy(rows.curve, rows.accuracy, rows.efficiency, rows.fitted_lines, styles, depth, twice)
        if drawn:
            numbers = listings.curve_numbers(rows.curve, styles, depth)
            blocks += [
                Block("heading", depth_name(depth)),
                *figure(drawn),
                *details("The numbers of this figure", numbers),
            ]
    return blocks


def other_depths(rows: Rows, styles: Mapping[str, Style]) -> list[Block]:
    """Accuracy of recurrent models run at other depths than they were trained at."""
    drawn = figure(depths.figure(rows.other_depths, styles))
    if not drawn:
        return []
    text = (
        "A recurrent model can be run at another depth than it was trained at, with no further training. Whether it "
        "gains by that is one of the paper’s open questions."
    )
    return [prose(text), *drawn, *details("The numbers of this figure", depths.table(rows.other_depths, styles))]


def results(rows: Rows, styles: Mapping[str, Style]) -> list[Block]:
    """Table 2, perplexity, and what was measured how."""
    blocks = table(tables.results(rows.results, styles))
    drawn = figures.perplexity(rows.perplexity, styles)
    if drawn:
        blocks += [Block("heading", "Validation perplexity"), *figure(drawn)]
    measured = table(listings.benchmarks(rows.accuracy, rows.perplexity, rows.versions))
    if measured:
        blocks += [Block("heading", "Benchmarks"), *measured]
    return blocks


def resources(rows: Rows, styles: Mapping[str, Style]) -> list[Block]:
    """Table 1, and the factors in compute and time."""
    return table(tables.resources(rows.resources, styles)) + table(tables.compute(rows.compute, styles))


def training(rows: Rows, styles: Mapping[str, Style]) -> list[Block]:
    """Loss curves, the runs, and how often the stream went over the data."""
    blocks = figure(figures.loss(rows.steps, styles))
    blocks += [prose(text) for text in (stream.epochs(rows), stream.streams(rows)) if text]
    return blocks + table(listings.runs(rows.runs, styles))


def data(rows: Rows) -> list[Block]:
    """The funnel from raw rows to packed tokens."""
    if rows.funnel.empty:
        return []
    first, last = rows.funnel.iloc[0], rows.funnel.iloc[-1]
    sources = sorted(rows.curation["source"].dropna().unique())
    packed = stream.corpus_tokens(rows)
    text = (
        f"Of {number(first['documents'])} documents from {counted(len(sources), 'source')} ({listed(sources)}), "
        f"{number(last['kept'])} went into training{f' as {tokens(packed)} tokens' if packed else ''}."
    )
    return [
        prose(text),
        *figure(funnel.stages(rows.funnel, rows.curation)),
        *figure(funnel.reasons(rows.funnel, rows.curation)),
        *table(funnel.table(rows.funnel, rows.curation)),
        *details("Source by source", funnel.by_source(rows.funnel_by_source)),
    ]


def inside(rows: Rows, styles: Mapping[str, Style]) -> list[Block]:
    """Depth attention and the use of experts, where they have been observed (section 4.2 of the paper)."""
    blocks: list[Block] = []
    looked = figure(insides.attention(rows.attention, rows.runs, styles))
    if looked:
        blocks += [Block("heading", "Depth attention"), *looked]
    if len(rows.gini):
        newest = rows.gini[rows.gini["tokens"] == rows.gini.groupby("run_id")["tokens"].transform("max")]
        blocks += [
            Block("heading", "Balance of the experts"),
            prose(_diversity(rows, styles)),
            *table(listings.experts(newest, styles)),
            *figure(insides.lorenz(rows.lorenz, rows.gini, rows.runs, styles)),
            *figure(insides.balance(rows.gini, rows.diversity, styles)),
        ]
    mapped = figure(insides.selections(rows.selections, rows.runs, styles))
    return [*blocks, Block("heading", "Experts by depth"), *mapped] if mapped else blocks


def _diversity(rows: Rows, styles: Mapping[str, Style]) -> str:
    """What the paper says about balance, and how many experts a depth draws on, in words."""
    text = (
        "Recurrent models are balanced over all depths together, so that a depth may prefer some experts. The paper "
        "reports a Gini coefficient of 0.075 for its DR+DA of depth 32."
    )
    compared = rows.diversity[(rows.diversity["variant"] != BASELINE) & rows.diversity["ratio"].notna()]
    for depth, models in ordered(compared, styles).groupby("model_depth", sort=False):
        said = []
        for variant, part in models.groupby("variant", sort=False):
            low, high = (number(value, 1) for value in (part["ratio"].min(), part["ratio"].max()))
            said.append(f"{low if low == high else f'{low} to {high}'} times as many in {variant}")
        text += (
            f" At {depth_name(depth).lower()}, the experts that carry 90% of a depth’s selections are "
            f"{', '.join(said)} as in {BASELINE}."
        )
    return text + " In the paper it is 2 to 11 times." * bool(len(compared))


def doubts(rows: Rows) -> list[Block]:
    """The caveats as a list, where there are any."""
    said = caveats(rows)
    return [Block("list", tuple(said))] if said else []


def study_file(rows: Rows) -> str:
    """The study's configuration as the YAML file that runs it again; nothing when the results hold none."""
    study = rows.config.get("study")
    if not isinstance(study, dict):
        return ""
    in_order = {key: study[key] for key in (*STUDY_ORDER, *study) if key in study}
    return yaml.safe_dump(in_order, sort_keys=False, allow_unicode=True, width=100)


def reproduce(rows: Rows) -> list[Block]:
    """Versions, commands and the study file."""
    version, study = rows.study.get("code_version"), study_file(rows)
    commit = COMMIT.search(version or "")
    packages = rows.config.get("packages")
    packages = packages if isinstance(packages, dict) else {}
    blocks = table(listings.versions(version, packages, rows.evaluated_with))
    if study:
        commands = [f"git checkout {commit[1]}"] if commit else []
        commands += ["dreamer run study.yaml", "dreamer sql study.yaml 'FROM data_efficiency'"]
        blocks.append(Block("code", "\n".join(commands), "Commands"))
        if commit and commit[2]:
            blocks.append(prose("The code had changes that are not in that commit."))
        blocks.append(Block("code", study, "study.yaml, with every default written out; it lies beside this page"))
    elif rows.study.get("config"):
        blocks.append(Block("code", str(rows.study["config"]), "The configuration as it was entered"))
    return blocks or [prose("The results hold neither the configuration nor the code version of this study.")]
