"""The sections of the report in reading order, each a list of blocks that the template knows how to set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas as pd
import yaml

from reports import figures, insides, listings, tables
from reports.caveats import caveats
from reports.drawing import Figure
from reports.rows import Rows
from reports.tables import Table
from reports.theme import BASELINE, Style
from reports.words import (
    AVERAGE,
    counted,
    depth_name,
    finding,
    lead,
    listed,
    missing,
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
    interpolated = [tables.factors(rows.interpolated, styles, depth, "interpolated") for depth in rows.depths]
    return blocks + details("The same factors, interpolated between checkpoints", *interpolated)


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
    blocks = []
    for depth in rows.depths:
        drawn = figures.accuracy(rows.curve, rows.accuracy, rows.efficiency, styles, depth)
        if drawn:
            numbers = listings.curve_numbers(rows.curve, styles, depth)
            blocks += [
                Block("heading", depth_name(depth)),
                *figure(drawn),
                *details("The numbers of this figure", numbers),
            ]
    return blocks


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
    text = epochs(rows)
    if text:
        blocks.append(prose(text))
    text = streams(rows)
    if text:
        blocks.append(prose(text))
    return blocks + table(listings.runs(rows.runs, styles))


def epochs(rows: Rows) -> str:
    """How many times the longest run went over the packed data; nothing when either is unknown."""
    held, trained = _corpus_tokens(rows), rows.runs["tokens"].max()
    if missing(trained) or not held:
        return ""
    times = trained / held
    if times <= 1:
        return (
            f"The packed data hold {tokens(held)} tokens, and the longest run was trained on {tokens(trained)}: no "
            "document was seen twice."
        )
    return (
        f"The stream went over the data more than once: the packed data hold {tokens(held)} tokens and the longest "
        "run was "
        f"trained on {tokens(trained)}, that is {times:.1f} epochs, each in a fresh order. Later tokens are worth "
        "less than new ones would be."
    )


def _corpus_tokens(rows: Rows) -> float:
    """Tokens that the last stage that counts tokens kept."""
    counted_stages = rows.funnel[rows.funnel["tokens_kept"].notna()]
    return 0 if counted_stages.empty else float(counted_stages["tokens_kept"].iloc[-1])


def streams(rows: Rows) -> str:
    """Whether runs with the same seed and as many tokens saw the same tokens in the same order."""
    known = rows.runs[rows.runs["stream_hash"].notna() & rows.runs["tokens"].notna()]
    groups = [part for _, part in known.groupby(["seed", "tokens"], dropna=False) if len(part) > 1]
    if not groups:
        return ""
    if all(part["stream_hash"].nunique() == 1 for part in groups):
        return "Runs of one seed saw exactly the same tokens in the same order: their stream hashes are equal."
    return (
        "Runs of one seed did not all see the same tokens in the same order: their stream hashes differ, so part of "
        "any difference between variants may come from the data."
    )


def data(rows: Rows) -> list[Block]:
    """The funnel from raw rows to packed tokens."""
    if rows.funnel.empty:
        return []
    first, last = rows.funnel.iloc[0], rows.funnel.iloc[-1]
    sources = sorted(rows.curation["source"].dropna().unique())
    packed = _corpus_tokens(rows)
    text = (
        f"Of {number(first['documents'])} documents from {counted(len(sources), 'source')} ({listed(sources)}), "
        f"{number(last['kept'])} went into training{f' as {tokens(packed)} tokens' if packed else ''}."
    )
    return [
        prose(text),
        *figure(insides.funnel(rows.funnel, rows.curation)),
        *table(listings.funnel(rows.funnel, rows.curation)),
        *details("Source by source", listings.funnel_by_source(rows.funnel_by_source)),
    ]


def inside(rows: Rows, styles: Mapping[str, Style]) -> list[Block]:
    """Expert balance and depth attention, where they have been measured."""
    blocks: list[Block] = []
    if len(rows.gini):
        newest = rows.gini[rows.gini["tokens"] == rows.gini.groupby("run_id")["tokens"].transform("max")]
        blocks += [Block("heading", "Experts"), *figure(insides.lorenz(rows.lorenz, rows.gini, styles))]
        blocks += table(listings.experts(newest, styles))
    if len(rows.attention):
        blocks += [Block("heading", "Depth attention"), *figure(insides.attention(rows.attention, styles))]
    return blocks


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
    """Code version, commands, study file and package versions."""
    version, study = rows.study.get("code_version"), study_file(rows)
    commit = COMMIT.search(version or "")
    blocks = []
    if version:
        edited = " The code had changes that are not in that commit." if commit and commit[2] else ""
        blocks.append(prose(f"Code version {version}.{edited}"))
    if study:
        commands = [f"git checkout {commit[1]}"] if commit else []
        commands += ["dreamer run study.yaml", "dreamer sql study.yaml 'FROM data_efficiency'"]
        blocks.append(Block("code", "\n".join(commands), "Commands"))
        blocks.append(Block("code", study, "study.yaml, with every default written out; it lies beside this page"))
    elif rows.study.get("config"):
        blocks.append(Block("code", str(rows.study["config"]), "The configuration as it was entered"))
    packages = rows.config.get("packages")
    if isinstance(packages, dict) and packages:
        text = "\n".join(f"{package} {packages[package]}" for package in sorted(packages))
        blocks.append(Block("code", text, "Package versions"))
    return blocks or [prose("The results hold neither the configuration nor the code version of this study.")]
