"""Put the sections of the report together in reading order, each a list of blocks that the template can set."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from reports.data import StudyData
from reports.page.answer import answer_blocks
from reports.page.blocks import Block, Section, details_block, drawing_block, table_block
from reports.style.theme import Style, ordered
from reports.tables import curation as curation_tables
from reports.tables import efficiency as factor_tables
from reports.tables import results as result_tables
from reports.tables import runs as run_tables
from reports.tables.hyperparameters import hyperparameters
from reports.text import experts, token_stream
from reports.text.limitations import limitations
from reports.text.losses import data_doubts
from reports.text.numbers import counted, listed, number, tokens

COMMIT = re.compile(r"\(([0-9a-f]{7,40})(\+changes)?\)")  # in a code version, where there is one
STUDY_ORDER = ("name", "data", "models", "training", "evaluation")


def sections(data: StudyData, styles: Mapping[str, Style], *, one_stream: bool = True) -> list[Section]:
    """Return all sections; a section of drawings only may turn out to be empty.

    `one_stream`: the rows are of one study, whose runs read one stream of tokens; else no text speaks of a stream.
    """
    doubts = limitations(data)
    made = [
        Section("factors", "The factors", answer_blocks(data, styles)),
        Section("accuracy", "Accuracy and loss against tokens", _accuracy(data, styles, one_stream)),
        Section("results", "Results", _results(data, styles)),
        Section("depths", "Other depths at test time", _other_depths(data, styles)),
        Section("resources", "Resources", _resources(data, styles)),
        Section("training", "Training", _training(data, styles, one_stream)),
        Section("data", "Data", data_blocks(data)),
        Section("inside", "Inside the models", _inside(data, styles)),
        Section("caveats", "How far to trust this", [Block("list", doubts)] if doubts else []),
        Section("reproduce", "Run it again", reproduction(data)),
    ]
    return [section for section in made if section.blocks]


def _accuracy(data: StudyData, styles: Mapping[str, Style], one_stream: bool) -> list[Block]:
    """Show accuracy curves, a figure for each depth, their numbers, and the curves of the losses."""
    blocks, twice = [], token_stream.second_epoch_from(data.checkpoints) if one_stream else None
    seeds, losses = (frame[frame["run_id"].isin(data.counted["run_id"])] for frame in (data.accuracy, data.loss))
    frames = (data.curve, seeds, data.efficiency, data.raw_accuracy)
    for depth in data.depths:
        blocks.append(drawing_block("accuracy.accuracy", *frames, styles, depth, twice))
        numbers = result_tables.curve_numbers(data.curve, styles, depth)
        blocks += details_block("The numbers of this figure", numbers)
        blocks.append(drawing_block("loss.task_loss", data.loss_curve, losses, styles, depth))
    return blocks


def _results(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the paper's Table 2, perplexity, and how each benchmark was measured."""
    blocks = table_block(result_tables.results(data.results, styles))
    blocks.append(drawing_block("training.perplexity", data.perplexity, styles))
    measured = table_block(result_tables.benchmarks(data.accuracy, data.loss, data.perplexity, data.versions))
    return [*blocks, Block("heading", "Benchmarks"), *measured] if measured else blocks


def _other_depths(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the accuracy of recurrent models at other depths than they were trained at."""
    numbers = table_block(result_tables.other_depths(data.other_depths, styles))
    if not numbers:
        return []
    text = (
        "A recurrent model can be run at another depth than it was trained at, with no further training. Whether it "
        "gains by that is one of the paper’s open questions."
    )
    drawing = drawing_block("accuracy.accuracy_at_other_depths", data.other_depths, styles)
    return [Block("prose", text), drawing, *numbers]


def _resources(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show what the models cost, what each goal costs, and the hyperparameters."""
    return [
        *table_block(result_tables.resources(data.resources, styles)),
        *table_block(factor_tables.compute(data.compute, styles)),
        drawing_block("targets.cost_by_target", data.cost_by_target, styles),
        *details_block("Hyperparameters", hyperparameters(data.models, data.section("training"), styles)),
    ]


def _training(data: StudyData, styles: Mapping[str, Style], one_stream: bool) -> list[Block]:
    """Show loss curves, epochs and order of the token stream, and the runs."""
    texts = [token_stream.epochs(data), token_stream.streams(data)] if one_stream else []
    return [
        drawing_block("training.loss", data.training_curves, styles),
        drawing_block("training.course", data.training_curves, styles),
        *(Block("prose", text) for text in texts if text),
        *details_block("Every run", run_tables.runs(data.runs, styles)),
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
        *table_block(curation_tables.sources(data.sources)),
        drawing_block("curation.kept_and_dropped", data.funnel, data.curation),
        drawing_block("curation.reasons", data.funnel, data.curation),
        *table_block(curation_tables.funnel(data.funnel, data.curation)),
        *details_block("Source by source", curation_tables.funnel_by_source(data.funnel_by_source)),
    ]


def _inside(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show depth attention and the use of experts, where they were observed (section 4.2 of the paper)."""
    blocks = [drawing_block("depth_attention.depth_attention", data.attention, data.runs, styles)]
    if len(data.gini):
        blocks += [
            Block("heading", "Balance of the experts"),
            Block("prose", experts.balance(ordered(data.diversity, styles))),
            drawing_block("balance.concentration", data.concentration, data.gini, data.runs, styles),
            drawing_block("balance.balance", data.gini, data.diversity, styles),
            *details_block("The balance of every run", run_tables.experts(data.gini, styles)),
        ]
    observed = (data.selections, data.runs, styles)
    return [*blocks, *(drawing_block(f"experts.{name}", *observed) for name in ("selections", "experts_of_depths"))]


def study_file(data: StudyData) -> str:
    """Return the study's configuration as the YAML file that runs it again; empty when the results hold none."""
    study = data.config.get("study")
    if not isinstance(study, dict):
        return ""
    in_order = {key: study[key] for key in (*STUDY_ORDER, *study) if key in study}
    return yaml.safe_dump(in_order, sort_keys=False, allow_unicode=True, width=100)


def reproduction(data: StudyData) -> list[Block]:
    """Show versions, commands and the study file."""
    version, study = data.study.get("code_version"), study_file(data)
    commit = COMMIT.search(version or "")
    packages = data.config.get("packages")
    packages = packages if isinstance(packages, dict) else {}
    blocks = table_block(run_tables.versions(version, packages, data.evaluated_with))
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
