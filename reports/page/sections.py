"""Put the sections of the report together in reading order, each a list of blocks that the template can set."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from reports.data import StudyData
from reports.page.answer import answer_blocks
from reports.page.blocks import Block, Section, details_block, drawing_block, table_block
from reports.style.theme import Style
from reports.tables import curation as curation_tables
from reports.tables import efficiency as factor_tables
from reports.tables import results as result_tables
from reports.tables import runs as run_tables
from reports.tables.hyperparameters import hyperparameters
from reports.text import token_stream
from reports.text.limitations import data_doubts, limitations
from reports.text.numbers import counted, listed, number, tokens

COMMIT = re.compile(r"\(([0-9a-f]{7,40})(\+changes)?\)")  # in a code version, where there is one
STUDY_ORDER = ("name", "data", "models", "training", "evaluation")


def sections(data: StudyData, styles: Mapping[str, Style]) -> list[Section]:
    """Return all sections; a section of drawings only may turn out to be empty."""
    doubts = limitations(data)
    made = [
        Section("factors", "The factors", answer_blocks(data, styles)),
        Section("accuracy", "Accuracy and loss against tokens", _accuracy(data, styles)),
        Section("results", "Results", _results(data, styles)),
        Section("depths", "Other depths at test time", _other_depths(data, styles)),
        Section("resources", "Resources", _resources(data, styles)),
        Section("training", "Training", _training(data, styles)),
        Section("data", "Data", data_blocks(data)),
        Section("inside", "Inside the models", _inside(data, styles)),
        Section("caveats", "How far to trust this", [Block("list", doubts)] if doubts else []),
        Section("reproduce", "Run it again", _reproduction(data)),
    ]
    return [section for section in made if section.blocks]


def _accuracy(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show accuracy curves, a figure for each depth, their numbers, and the curves of the losses."""
    blocks, twice = [], token_stream.second_epoch_from(data.checkpoints)
    for depth in data.depths:
        frames = "curve accuracy efficiency raw_accuracy counted"
        blocks.append(drawing_block(data, frames, "accuracy.accuracy", styles, depth, twice))
        numbers = table_block(data, "curve", result_tables.curve_numbers, styles, depth)
        blocks += details_block("The numbers of this figure", numbers)
        blocks.append(drawing_block(data, "loss_curve loss counted", "accuracy.task_loss", styles, depth))
    return blocks


def _results(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the paper's Table 2, perplexity, and how each benchmark was measured."""
    blocks = table_block(data, "results", result_tables.results, styles)
    blocks.append(drawing_block(data, "perplexity", "training.perplexity", styles))
    measured = table_block(data, "accuracy loss perplexity versions", result_tables.benchmarks)
    return [*blocks, Block("heading", "Benchmarks"), *measured] if measured else blocks


def _other_depths(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the accuracy of recurrent models at other depths than they were trained at."""
    numbers = table_block(data, "other_depths", result_tables.other_depths, styles)
    if not numbers:
        return []
    text = (
        "A recurrent model can be run at another depth than it was trained at, with no further training. Whether it "
        "gains by that is one of the paper’s open questions."
    )
    drawing = drawing_block(data, "other_depths", "accuracy.accuracy_at_other_depths", styles)
    return [Block("prose", text), drawing, *numbers]


def _resources(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show what the models cost, and the hyperparameters."""
    chosen = table_block(data, "models runs", hyperparameters, data.config("study", "training"), styles)
    return [
        *table_block(data, "resources", result_tables.resources, styles),
        *table_block(data, "compute", factor_tables.compute, styles),
        *details_block("Hyperparameters", chosen),
    ]


def _training(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show loss curves, epochs and order of the token stream, and the runs."""
    texts = [token_stream.epochs(data), token_stream.streams(data)]
    return [
        drawing_block(data, "training_curves", "training.loss", styles),
        drawing_block(data, "training_curves", "training.course", styles),
        drawing_block(data, "tuning", "training.rates", styles),
        *(Block("prose", text) for text in texts if text),
        *details_block("Every run", table_block(data, "runs", run_tables.runs, styles)),
    ]


def data_blocks(data: StudyData) -> list[Block]:
    """Show the funnel from raw rows to packed tokens."""
    if data.funnel.empty:
        return []
    read, kept = data.funnel["documents"].iloc[0], data.funnel["kept"].iloc[-1]
    sources = sorted(data.curation["source"].dropna().unique())
    kept_tokens, repeated = token_stream.corpus_tokens(data), token_stream.repeated_sources(data)
    amount = f" as {tokens(kept_tokens)} tokens" if kept_tokens else ""
    once = ", each document counted once" if amount and repeated else ""
    text = (
        f"Of {number(read)} documents from {counted(len(sources), 'source')} ({listed(sources)}), "
        f"{number(kept)} went into training{amount}{once}. {repeated}"
    ).strip()
    return [
        Block("prose", text),
        *(Block("doubt", doubt) for doubt in data_doubts(data)),
        *table_block(data, "sources", curation_tables.sources),
        drawing_block(data, "funnel curation", "curation.kept_and_dropped"),
        *table_block(data, "funnel curation", curation_tables.funnel),
        *details_block("Source by source", table_block(data, "funnel_by_source", curation_tables.funnel_by_source)),
    ]


def _inside(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show depth attention and the use of experts, where they were observed (section 4.2 of the paper)."""
    blocks = [drawing_block(data, "attention runs", "depth_attention.depth_attention", styles)]
    if len(data.gini):
        blocks += [
            Block("heading", "Balance of the experts"),
            drawing_block(data, "concentration gini runs", "balance.concentration", styles),
            drawing_block(data, "gini diversity", "balance.balance", styles),
            *details_block("The balance of every run", table_block(data, "gini", run_tables.experts, styles)),
        ]
    maps = ("experts.selections", "experts.experts_of_depths")
    return [*blocks, *(drawing_block(data, "selections runs", name, styles) for name in maps)]


def study_file(data: StudyData) -> str:
    """Return the study's configuration as the YAML file that runs it again; empty when the results hold none."""
    study = data.config("study")
    in_order = {key: study[key] for key in (*STUDY_ORDER, *study) if key in study}
    return yaml.safe_dump(in_order, sort_keys=False, allow_unicode=True, width=100) if study else ""


def _reproduction(data: StudyData) -> list[Block]:
    """Show versions, commands and the study file."""
    version, study = data.study.get("code_version"), study_file(data)
    commit = COMMIT.search(version or "")
    blocks = table_block(data, "evaluated_with", run_tables.versions, version, data.config("packages"))
    if study:
        commands = [f"git checkout {commit[1]}"] if commit else []
        commands += ["dreamer run study.yaml", "dreamer sql study.yaml 'FROM mean_factors'"]
        blocks.append(Block("code", "\n".join(commands), "Commands"))
        if commit and commit[2]:
            blocks.append(Block("prose", "The code had changes that are not in that commit."))
        label = "study.yaml, with every default written out: save the text under this name"
        blocks.append(Block("details", [Block("code", study, label)], "The study file"))
    elif data.study.get("config"):
        blocks.append(Block("code", str(data.study["config"]), "The configuration as it was entered"))
    return blocks or [Block("prose", "The results hold neither the configuration nor the code version of this study.")]
