"""Put the sections of the report together in reading order.

Each is a list of blocks that the template can set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.page.answer import answer_blocks
from dreamer_study.reports.page.blocks import (
    Block,
    Section,
    details_block,
    drawing_block,
    table_block,
)
from dreamer_study.reports.style.theme import Style
from dreamer_study.reports.tables import curation as curation_tables
from dreamer_study.reports.tables import examples as example_tables
from dreamer_study.reports.tables import results as result_tables
from dreamer_study.reports.tables import runs as run_tables
from dreamer_study.reports.tables.difficulty import difficulty
from dreamer_study.reports.tables.hyperparameters import hyperparameters
from dreamer_study.reports.text import token_stream
from dreamer_study.reports.text.costs import total_cost
from dreamer_study.reports.text.limitations import data_doubts, limitations
from dreamer_study.reports.text.names import depth_name, task_name
from dreamer_study.reports.text.numbers import counted, listed, number, tokens
from dreamer_study.reports.text.tasks import tasks_in_words

COMMIT = re.compile(r"\(([0-9a-f]{7,40})(\+changes)?\)")  # in a code version, where there is one
STUDY_ORDER = ("name", "data", "models", "training", "evaluation")


def sections(
    data: StudyData, styles: Mapping[str, Style], price: float | None = None
) -> list[Section]:
    """Return all sections; a section of drawings only may turn out to be empty.

    `price` is that of an hour of a GPU or core, which the total cost is computed with.
    """
    doubts = limitations(data)
    all_sections = [
        Section("ratios", "Ratios of training tokens", answer_blocks(data, styles)),
        Section("difficulty", "Ratios by difficulty of the items", _difficulty(data, styles)),
        Section("accuracy", "Accuracy during training", _accuracy(data, styles)),
        Section("results", "Best results", _results(data, styles)),
        Section("examples", "What models answer", _examples(data, styles)),
        Section("depths", "Other depths at test time", _other_depths(data, styles)),
        Section("training", "Models and training", _training(data, styles, price)),
        Section("data", "Data", data_blocks(data)),
        Section("inside", "Inside the models", _inside(data, styles)),
        Section("caveats", "How far to trust this", [Block("list", doubts)] if doubts else []),
        Section("reproduce", "Run it again", _reproduction(data)),
    ]
    return [section for section in all_sections if section.blocks]


def _difficulty(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the ratios on easy, middle and hard items, where `dreamer items` has computed them."""
    return table_block(data, "difficulty", difficulty, styles)


def _accuracy(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show accuracy curves, a figure for each depth; folded, losses, and the numbers."""
    data = data.without_repeats()
    second_epoch_from = token_stream.second_epoch_from(data.checkpoints)
    blocks: list[Block] = []
    folded: list[Block] = []
    for depth in data.depths:
        frames = "curve accuracy efficiency raw_accuracy counted"
        blocks.append(
            drawing_block(data, frames, "accuracy.accuracy", styles, depth, second_epoch_from)
        )
        folded.append(
            drawing_block(data, "loss_curve loss counted", "accuracy.task_loss", styles, depth)
        )
        folded += table_block(data, "curve", result_tables.curve_numbers, styles, depth)
    frames = "curve accuracy counted"
    blocks.append(drawing_block(data, frames, "final_accuracy.final_accuracy", styles))
    blocks.append(drawing_block(data, "by_steps", "steps.accuracy_by_steps", styles))
    if len(data.answered):
        by_item = [drawing_block(data, "answered", "item_map.item_map", styles)]
        blocks += details_block("Which items each model gets right", by_item)
    return [*blocks, *details_block("Losses, and the accuracies in numbers", folded)]


def _results(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the paper's Table 2; folded, perplexity and how each benchmark was measured."""
    frames = "accuracy loss perplexity versions"
    measured = table_block(data, frames, result_tables.benchmarks, tasks_in_words(data))
    levels = table_block(data, "levels", result_tables.levels)
    folded = [*measured, *levels, drawing_block(data, "perplexity", "training.perplexity", styles)]
    blocks = table_block(data.without_repeats(), "results", result_tables.results, styles)
    if measured:
        title = "How each benchmark was measured"
        has_perplexity = len(data.perplexity) > 0
        blocks += details_block(f"{title}, and perplexity" if has_perplexity else title, folded)
    return blocks


def _examples(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show a filter; folded, the answers of the models of a depth to questions of a benchmark."""
    variants = set(data.examples["variant"])
    blocks = [Block("filter", [name for name in styles if name in variants])]
    for depth, task in data.examples.groupby(["depth", "task"]).groups:
        answers = table_block(
            data, "examples usual_answers", example_tables.examples, styles, depth, task
        )
        blocks += details_block(f"{task_name(task)}, {depth_name(depth).lower()}", answers)
    return blocks


def _other_depths(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show the accuracy of recurrent models at other depths than they were trained at."""
    numbers = table_block(data, "other_depths", result_tables.other_depths, styles)
    drawing = drawing_block(data, "other_depths", "accuracy.accuracy_at_other_depths", styles)
    if not numbers:
        return []
    return [drawing, *details_block("In numbers", numbers)]


def _training(data: StudyData, styles: Mapping[str, Style], price: float | None) -> list[Block]:
    """Show loss curves, and what the token stream was; folded, costs, settings and the runs."""
    texts = [total_cost(data, price), token_stream.epochs(data), token_stream.streams(data)]
    recipe = data.config("study", "training")
    resources = table_block(data, "resources", result_tables.resources, styles)
    settings = table_block(data, "models runs", hyperparameters, recipe, styles)
    runs = table_block(data, "runs", run_tables.runs, styles)
    return [
        *(Block("prose", text) for text in texts if text),
        drawing_block(
            data,
            "training_curves training_means",
            "training.loss",
            styles,
            data.bytes_per_token,
        ),
        drawing_block(data, "tuning", "training.rates", styles),
        *details_block("Resources", resources),
        *details_block("Hyperparameters", settings),
        *details_block("Every run", runs),
    ]


def data_blocks(data: StudyData) -> list[Block]:
    """Show the funnel from raw rows to packed tokens."""
    if data.funnel.empty:
        return []
    read = data.funnel["documents"].iloc[0]
    kept = data.funnel["kept"].iloc[-1]
    sources = sorted(data.curation["source"].dropna().unique())
    kept_tokens = token_stream.corpus_tokens(data)
    repeated = token_stream.repeated_sources(data)
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
        *details_block(
            "Stage by stage",
            [
                *table_block(data, "funnel dropped", curation_tables.funnel),
                *table_block(data, "funnel_by_source", curation_tables.funnel_by_source),
            ],
        ),
    ]


def _inside(data: StudyData, styles: Mapping[str, Style]) -> list[Block]:
    """Show depth attention and, folded, the use of experts, where they were observed.

    These are of section 4.2 of the paper.
    """
    balance = [
        drawing_block(data, "concentration gini_at_end", "balance.concentration", styles),
        drawing_block(data, "gini gini_at_end diversity", "balance.balance", styles),
    ]
    maps = [
        drawing_block(data, "selections", name, styles)
        for name in ("experts.selections", "experts.experts_of_depths")
    ]
    return [
        drawing_block(data, "attention", "depth_attention.depth_attention", styles),
        *(details_block("Balance of the experts", balance) if len(data.gini) else []),
        *(details_block("Which experts serve which depths", maps) if len(data.selections) else []),
    ]


def study_file(data: StudyData) -> str:
    """Return the study's configuration as the YAML file that runs the study again.

    Empty when the results hold none.
    """
    study = data.config("study")
    if not study:
        return ""
    in_order = {key: study[key] for key in (*STUDY_ORDER, *study) if key in study}
    return yaml.safe_dump(in_order, sort_keys=False, allow_unicode=True, width=100)


def _citation(data: StudyData) -> str:
    """Write the study as an entry of BibTeX."""
    study = data.study["study_id"]
    created = data.study.get("created_at")
    year = f"  year = {{{created:%Y}}},\n" if created else ""
    note = f"dreamer-study {data.study.get('code_version') or ''}".strip()
    title = f"{study}: training tokens that each architecture needs to reach the same accuracy"
    return f"@misc{{{study},\n  title = {{{title}}},\n{year}  note = {{{note}}}\n}}"


def _reproduction(data: StudyData) -> list[Block]:
    """Show versions, commands and the study file."""
    version = data.study.get("code_version")
    study = study_file(data)
    commit = COMMIT.search(version or "")
    made_by = table_block(
        data, "evaluated_with", run_tables.versions, version, data.config("packages")
    )
    blocks = details_block("Versions", made_by)
    if study:
        blocks.append(Block("code", "\n".join(_commands(data, commit)), "Commands"))
        if commit and commit[2]:
            blocks.append(Block("prose", "The code had changes that are not in that commit."))
        label = "study.yaml, with every default written out: save the text under this name"
        blocks.append(Block("details", [Block("code", study, label)], "The study file"))
    elif data.study.get("config"):
        blocks.append(
            Block("code", str(data.study["config"]), "The configuration as it was entered")
        )
    nothing = Block(
        "prose", "The results hold neither the configuration nor the code version of this study."
    )
    return [Block("code", _citation(data), "To cite this study"), *(blocks or [nothing])]


def _commands(data: StudyData, commit: re.Match[str] | None) -> list[str]:
    """Return the commands that run the study again and ask for its ratios."""
    commands = []
    if commit:
        commands.append(f"git checkout {commit[1]}")
    run = "dreamer run study.yaml"
    variants = (data.config("study").get("models") or {}).get("variants", ())
    if any(isinstance(variant, dict) and variant.get("module") for variant in variants):
        run += " --trust-code"  # a model of the user's own code
    commands += [run, "dreamer sql study.yaml 'FROM token_ratios'"]
    return commands
