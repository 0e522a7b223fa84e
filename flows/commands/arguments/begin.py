"""Options of the commands that come first: `factors`, `new`, `list`, `schema`."""

from __future__ import annotations

from dreamer_study.flows.commands.arguments.shared import add_json
from dreamer_study.flows.commands.help import (
    FILES,
    FOLDERS,
    Command,
    Commands,
    preset_names,
    world_names,
)


def add_begin(commands: Commands) -> None:
    """Add the commands that come first."""
    _add_factors(commands)
    _add_new(commands)
    studies = commands.add(
        "list",
        "start.list:list_studies",
        "List your studies with their state and answer.",
        more="Studies are looked for in the folders of runs/, or below the folders that --root"
        " names.",
        examples=[
            ("dreamer list", "the studies below runs/"),
            ("dreamer list --root runs --root /data/runs", "those below two folders"),
        ],
    )
    studies.repeatable(
        "--root",
        "FOLDER",
        "a folder whose folders are studies (repeatable; default runs)",
        complete=FOLDERS,
    )
    add_json(studies)
    commands.add(
        "schema",
        "start.new:schema",
        "Print the JSON schema of study files.",
        more="An editor uses the schema to complete and to check a study file.",
        examples=[
            ("dreamer schema", "print the schema"),
            ("dreamer schema > study.schema.json", "keep the schema beside your study files"),
        ],
    )


def _add_new(commands: Commands) -> None:
    new = commands.add(
        "new",
        "start.new:new",
        "Write a study file: from your data, with your module, or as a copy of a preset.",
        examples=[
            ("dreamer new my.yaml --data questions.jsonl", "train on your own data"),
            ("dreamer new --from paper-16 my.yaml", "copy a preset, with its comments, to edit"),
            (
                "dreamer new mine.yaml --module my_models.py:GPT --atlas mixture",
                "place your model among published architectures",
            ),
        ],
    )
    new.file("file", "the study file to write, such as my.yaml")
    new.option(
        "--from",
        dest="preset",
        metavar="PRESET",
        choices=preset_names(),
        help=f"copy this preset: {', '.join(preset_names())}",
    )
    new.file(
        "--data",
        "files with your data: JSON lines, JSON, CSV, TSV, Parquet or text, also compressed"
        " (.gz, .zst)",
        nargs="+",
        default=[],
    )
    new.option(
        "--module",
        metavar="FILE[:CLASS]",
        complete=FILES,
        help="a Python file in the folder of the study file: its model classes, or with :CLASS one"
        " of them",
    )
    new.option(
        "--atlas",
        metavar="WORLD",
        help=f"with --module, compare your model with the architectures of a world of the atlas"
        f" ({', '.join(world_names())}): their data, recipe and search of the learning rate; your"
        " model alone is trained",
    )


def _add_factors(commands: Commands) -> None:
    factors = commands.add(
        "factors",
        "results.factors:factors",
        "Compare curves that were trained elsewhere: tokens to equal scores.",
        more="CURVES is a table (.csv, .parquet, .jsonl) with variant, seed, tokens, task and score"
        " or loss under any names, the export of a tracker, a folder of tables, of logs or of"
        " results of lm-eval, lighteval or Every Eval Ever, what a training framework leaves"
        " behind, or `example`. docs/curves.md has the command for each form.",
        examples=[
            ("dreamer factors example", "curves that come with the package"),
            (
                "dreamer factors curves.csv --baseline LA --below 0.97",
                "for scripts: ends with 0 if the ratio is below 0.97, with 3 if it is above, with 4"
                " if that is not yet known",
            ),
        ],
    )
    factors.option(
        "curves", metavar="CURVES", complete=FILES, help="a table, a folder, or `example`"
    )
    factors.option(
        "--baseline",
        metavar="VARIANT",
        help="the variant that the others are compared with (default: the first one)",
    )
    _add_reading(factors.group("how the curves are read"))
    factors.flag(
        "--all", "compute the ratios of every two variants, not only of those with the baseline"
    )
    factors.repeatable(
        "--target",
        "[TASK:METRIC=]SCORE",
        "compare the tokens at a score that was fixed in advance (repeatable), such as 3.28 or"
        " gsm8k:accuracy=0.4; default: the best scores that both models reach",
    )
    factors.flag(
        "--decayed-at-end", "say that the learning rate of each run decays towards the run's end"
    )
    factors.file("--report", "also write the report, one HTML file")
    form = factors.one_of()
    form.flag("--csv", "print every ratio, of single tasks too, as comma-separated values")
    add_json(form)
    _add_decision(factors.group("for scripts"))


def _add_decision(to: Command) -> None:
    """Add the options by which the exit status says on which side of a ratio the interval is."""
    to.real(
        "--below",
        "RATIO",
        "end with 0 if the whole interval of the ratio is below RATIO, with 3 if it is above,"
        " and with 4 if that is not yet known",
    )
    to.option(
        "--variant",
        metavar="NAME",
        help="the variant that --below is about (needed where several are compared)",
    )
    to.option(
        "--task",
        metavar="NAME",
        help="the task that --below is about, or TASK:METRIC (default: the average; the only task"
        " where there is one)",
    )


def _add_reading(to: Command) -> None:
    to.repeatable(
        "--column",
        "NAME=SQL",
        "say what variant, seed, tokens, step, task, score, loss, items, chance or stderr is"
        " in the columns of a table (repeatable), such as tokens='step*524288' or score=acc",
    )
    to.option(
        "--tokens-per-step",
        metavar="N",
        help="the tokens of a step, for curves over steps; without N the ratio is in steps",
    )
    to.option(
        "--pattern",
        help="the form of the paths in a folder, such as {variant}/seed{seed}/{tokens}, with the"
        " fields variant, seed, tokens, step and task, and wildcards; for a table, the form of the"
        " names of runs",
    )
    to.repeatable(
        "--log",
        "LINE",
        "the form of the lines of a plain log that have a point (repeatable), such as"
        " 'step:{step}/{} val_loss:{loss}', where {} is any text",
    )
    to.option(
        "--metric",
        metavar="METRIC[,FILTER]",
        help="take only this metric, such as acc_norm (default: the first of the known ones)",
    )
    to.file(
        "--items",
        "a table with the scores of single items: variant, seed, tokens, task, item, and score"
        " or loss",
    )
