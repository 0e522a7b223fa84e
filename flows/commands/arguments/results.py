"""Options of the commands that read results or pass them on."""

from __future__ import annotations

import argparse

from dreamer_study.flows.commands.arguments.shared import (
    RESULTS,
    add_json,
    add_root,
    add_study,
    add_trust,
)
from dreamer_study.flows.commands.help import STUDIES, Commands, world_names


def add_results(commands: Commands) -> None:
    """Add the commands that read results or pass them on."""
    report = commands.add(
        "report",
        "results.report:report",
        "Write the report again from the results, or print its text.",
        examples=[
            ("dreamer report demo --text", "read the report in the terminal"),
            ("dreamer report demo --watch", "a page that follows a running study"),
            ("dreamer report demo --price 2.5", "with the cost of the trainings, in money"),
        ],
    )
    add_study(report, RESULTS)
    report.flag("--text", "print the report's text and tables instead of a page")
    report.flag("--watch", "serve the page, and write it again whenever the results change")
    report.real("--price", "P", "the price of an hour of one GPU (or of one core, without GPUs)")
    _add_atlas(commands)
    _add_sql(commands)
    _add_compare(commands)
    _add_items(commands)
    _add_lm_eval(commands)
    _add_handing_on(commands)


def _add_atlas(commands: Commands) -> None:
    atlas = commands.add(
        "atlas",
        "results.atlas:atlas",
        "Show how many training tokens published architectures need, and where yours stands.",
        more="The rows come with the package. `dreamer new FILE --module FILE --atlas WORLD` writes"
        " the study that trains your model beside them.",
        examples=[
            ("dreamer atlas", "the table"),
            ("dreamer atlas mixture --plot map.svg", "one ability against the other"),
            ("dreamer atlas mixture --with mine.yaml", "with the rows of your study"),
        ],
    )
    atlas.option(
        "world",
        nargs="?",
        metavar="WORLD",
        help=f"the problems that were learned: {', '.join(world_names())} (default mixture)",
    )
    atlas.option(
        "--with",
        dest="study",
        metavar="STUDY",
        complete=STUDIES,
        help=f"add what this study has trained: {RESULTS}",
    )
    add_root(atlas, "the folder that the study of --with writes to (default runs/<name>)")
    atlas.file("--plot", "write the map, as .svg, .pdf or .png")
    atlas.flag("--csv", "print comma-separated values, with the origin of every row")


def _add_sql(commands: Commands) -> None:
    sql = commands.add(
        "sql",
        "results.query:sql",
        "Run an SQL query on a study's results.",
        more="docs/sql.md lists the tables and answers ten questions with queries.",
        examples=[
            ("dreamer sql demo 'FROM token_ratios'", "the answer, as a table"),
            ("dreamer sql runs/demo 'FROM token_accuracy' --csv", "the curves, as CSV"),
        ],
    )
    add_study(sql, RESULTS)
    sql.option(
        "query", metavar="QUERY", help="one SQL statement, whose rows are printed as a table"
    )
    sql.flag("--csv", "print comma-separated values, not a table")


def _add_compare(commands: Commands) -> None:
    compare = commands.add(
        "compare",
        "results.compare:compare_studies",
        "Say what differs between two studies by more than noise.",
        examples=[
            ("dreamer compare demo my.yaml", "a preset and your study"),
            ("dreamer compare runs/demo /data/runs/demo --all", "two folders, with all rows"),
            ("dreamer compare small medium large --over flops", "does a gain survive scale?"),
            ("dreamer compare --tokens clean.yaml raw.yaml", "what is curation worth, in tokens?"),
        ],
    )
    for number in ("first", "second"):
        compare.option(number, metavar=number.upper(), complete=STUDIES, help=RESULTS)
        compare.option(
            f"--{number}-study",
            metavar="ID",
            help=f"the study to take where the results of {number.upper()} hold several",
        )
    compare.option(
        "more",
        nargs="*",
        metavar="MORE",
        complete=STUDIES,
        help="further studies, with --over or --tokens",
    )
    compare.option(
        "--over",
        metavar="SIZE",
        help=(
            "how the ratios change with the size of the models: flops, parameters, or a size of the"
            " baseline such as hidden_size; one study for each size"
        ),
    )
    compare.flag(
        "--tokens",
        "how many tokens each study takes for equal scores over the first one: studies of the same"
        " models on other data",
    )
    compare.flag(
        "--despite-differences",
        "with --tokens: also studies whose models or recipes differ, each difference printed",
    )
    compare.flag("--csv", "with --over or --tokens: print every ratio as comma-separated values")
    compare.file("--plot", "with --over: write the ratios by size as .svg, .pdf or .png")
    add_root(compare, "the folder that a study writes to which is named by a preset or a file")
    compare.flag("--all", "also print what did not change")
    add_json(compare)


def _add_items(commands: Commands) -> None:
    items = commands.add(
        "items",
        "results.items:items",
        "Say when models learn each item, and the answer by difficulty.",
        more="The rows are stored in the results, for SQL and for the next report.",
        examples=[
            ("dreamer items demo", "ratios on the easy, the middle and the hard items"),
            ("dreamer items results.duckdb --json", "with the learning time of every item"),
        ],
    )
    add_study(items, RESULTS)
    add_json(items)


def _add_lm_eval(commands: Commands) -> None:
    lm_eval = commands.add(
        "lm-eval",
        "results.lm_eval:lm_eval",
        "Run lm-eval's own command on a model trained here.",
        more="All arguments are lm-eval's; the model is called `dreamer`.",
        examples=[
            (
                "dreamer lm-eval --model dreamer --model_args path=FOLDER --tasks gsm8k",
                "FOLDER is one that `dreamer checkpoints` prints",
            ),
            ("dreamer lm-eval --help", "lm-eval's own help"),
        ],
        prefix_chars="\0",  # every argument is lm-eval's, --help as well
        add_help=False,
    )
    lm_eval.option("arguments", nargs=argparse.REMAINDER, help="arguments of lm-eval")


def _add_handing_on(commands: Commands) -> None:
    export = commands.add(
        "export",
        "results.query:export",
        "Write every table and view of the results as files, or a model.",
        more="--format hf writes one trained model as a new folder that transformers loads:"
        " weights, tokenizer, code in plain torch, and a card.",
        examples=[
            ("dreamer export demo tables --format csv", "for a spreadsheet"),
            ("dreamer export runs/demo tables", "Parquet files"),
            (
                "dreamer export demo folder --format hf --model DR --seed 0",
                "one model, for AutoModelForCausalLM.from_pretrained",
            ),
        ],
    )
    add_study(export, RESULTS)
    export.folder("folder", "the folder to write to")
    export.choice(
        "--format",
        ("parquet", "csv", "hf"),
        "the form of the files: parquet or csv (default parquet); hf: one model, for transformers",
        default="parquet",
    )
    export.option(
        "--model",
        metavar="NAME",
        help="of --format hf: a variant or a model, such as DR or DR-4 (default: the only one)",
    )
    export.number("--seed", "of --format hf: the seed (default: the only one)")
    export.number(
        "--tokens", "of --format hf: the checkpoint at this many tokens (default: the last one)"
    )
    add_trust(export)
    publish = commands.add(
        "publish",
        "publishing.publish:publish",
        "Write a folder ready for a hub: results, report, models, cards.",
        more="Nothing is uploaded.",
        examples=[
            ("dreamer publish demo folder --owner me", "with the last checkpoint of each run"),
            ("dreamer publish demo folder --checkpoints none", "the results alone"),
        ],
    )
    add_study(publish)
    publish.folder("folder", "the new folder to write")
    publish.choice(
        "--checkpoints",
        ("last", "none", "all"),
        "which checkpoints of each complete run to publish: last, none or all (default last)",
        default="last",
    )
    publish.option(
        "--answers",
        action="store_true",
        help=(
            "also publish the questions and answers of benchmarks other than the built-in ones, and"
            " few-shot samples"
        ),
    )
    publish.option(
        "--owner",
        metavar="NAME",
        default="OWNER",
        help="your name on the hub, which the names of the models begin with",
    )
    intervals = commands.add(
        "intervals",
        "results.query:intervals",
        "Compute the ratios and intervals again after you changed rows.",
        examples=[
            ("dreamer intervals demo", "of one study"),
            ("dreamer intervals results.duckdb", "of every study of a results file"),
        ],
    )
    add_study(intervals, RESULTS)
