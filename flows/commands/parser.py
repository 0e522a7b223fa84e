"""Parse the arguments of `dreamer`: its subcommands with their options, in groups."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

from dreamer_study import __version__

DESCRIPTION = """\
How many training tokens does each architecture need to reach the same accuracy?
dreamer takes a study from raw public data to a report: it curates and tokenises the data,
matches the models in FLOPs and parameters, trains them on the same tokens, evaluates every
checkpoint with lm-eval, and computes data-efficiency factors with their uncertainty.

A STUDY is a preset's name (demo, control, gpu-small, paper-mini, paper-16, paper-32)
or the path of a YAML file."""
# Every command, in the groups in which the help lists them; README.md has an example of each.
GROUPS = {
    "begin": ("new", "schema"),
    "run": ("run", "plan", "verify", "clean"),
    "look": ("status", "sql", "report", "compare", "checkpoints", "lm-eval"),
    "data": ("sources", "download", "dropped", "preview"),
    "results": ("export", "publish", "intervals", "factors"),
}
A_STUDY = "a preset's name or a YAML file"
RESULTS = "a preset's name, a YAML file, a results file or a published folder"


def parser() -> argparse.ArgumentParser:
    """Build the parser of all subcommands.

    `command` of the parsed arguments names the function that runs one: `<room>.<module>:<name>`. A
    module is imported only when its subcommand runs: `dreamer --help` answers at once.
    """
    top = _OneLine(
        prog="dreamer",
        usage="dreamer [-h] [--version] COMMAND ...",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"dreamer {__version__}")
    commands = _Commands(top)
    _add_begin(commands)
    _add_run(commands)
    _add_look(commands)
    _add_data(commands)
    _add_results(commands)
    top.epilog = "\n\n".join(
        "\n".join([f"{group}:", *(f"  {name:<11} {commands.about[name]}" for name in names)])
        for group, names in GROUPS.items()
    )
    return top


class _Commands:
    """The subcommands as they are added; `about` keeps what each does, for the help of them all."""

    def __init__(self, top: argparse.ArgumentParser) -> None:
        self.about: dict[str, str] = {}
        self._subparsers = top.add_subparsers(
            required=True, metavar="COMMAND", prog="dreamer", help=argparse.SUPPRESS
        )

    def add(self, name: str, command: str, about: str, **options: Any) -> argparse.ArgumentParser:
        sub = self._subparsers.add_parser(name, description=about, **options)
        sub.set_defaults(command=command)
        self.about[name] = about
        return sub


def _add_study(
    sub: argparse.ArgumentParser, help: str = A_STUDY, *, default: str | None = None
) -> None:
    """Add the argument STUDY, and the option where the study writes."""
    if default:
        sub.add_argument(
            "study",
            metavar="STUDY",
            nargs="?",
            default=default,
            help=f"{help} (default {default})",
        )
    else:
        sub.add_argument("study", metavar="STUDY", help=help)
    sub.add_argument("--root", help="where the study writes (default runs/<name>)")


def _add_begin(commands: _Commands) -> None:
    new = commands.add(
        "new",
        "start.new:new",
        "Write a study file of your data, or with your module, after a look at them.",
    )
    new.add_argument("file", metavar="FILE", type=Path, help="the study file to write: my.yaml")
    new.add_argument(
        "--data",
        metavar="FILE",
        type=Path,
        nargs="+",
        default=[],
        help="of the data: JSON lines, JSON, CSV, TSV, Parquet, text, also .gz or .zst",
    )
    new.add_argument(
        "--module",
        metavar="FILE",
        type=Path,
        help="Python with classes of models, beside the study",
    )
    commands.add(
        "schema",
        "start.new:schema",
        "Print the JSON schema of study files, by which editors complete and check them.",
    )


def _add_run(commands: _Commands) -> None:
    run = commands.add(
        "run",
        "running.run:run",
        "Run a study to its report; what is already done is not done again.",
    )
    _add_study(run, default="demo")
    run.add_argument(
        "--mirror",
        help="folder of data sets in the hub's layout, looked in before the hub; later commands"
        " know the folder",
    )
    run.add_argument(
        "--accept-code-change",
        action="store_true",
        help="continue where other code has started; recorded",
    )
    run.add_argument(
        "--until",
        choices=("prepare", "train", "evaluate", "report"),
        default="report",
        help="end after this stage (default report)",
    )
    run.add_argument("--plain", action="store_true", help="run without Prefect")
    run.add_argument(
        "--trust-code", action="store_true", help="let tasks and models of the study run Python"
    )
    _add_plan(commands)
    verify = commands.add(
        "verify", "store.verify:verify", "Compare every file in a study's store with its digest."
    )
    _add_study(verify, default="demo")
    verify.add_argument(
        "--repair", action="store_true", help="remove what is damaged: the next run makes it again"
    )
    clean = commands.add(
        "clean",
        "store.clean:clean",
        "Show what a study's store holds, and remove what nobody uses.",
    )
    _add_study(clean)
    clean.add_argument("--yes", action="store_true", help="remove without asking")


def _add_plan(commands: _Commands) -> None:
    plan = commands.add(
        "plan",
        "planning.plan:plan",
        "Show the models, FLOPs, tokens, time, disk and money that a study needs. Times are those"
        " of runs in the study's store, unless --measure or --tflops says otherwise.",
    )
    _add_study(plan, default="demo")
    plan.add_argument("--mirror", help="folder of data sets in the hub's layout")
    plan.add_argument(
        "--gpus", type=int, metavar="N", help="plan for a machine with N GPUs, not for this machine"
    )
    speed = plan.add_mutually_exclusive_group()
    speed.add_argument(
        "--measure",
        action="store_true",
        help="time ten training steps of each model on this machine, for the time and the price",
    )
    speed.add_argument(
        "--tflops",
        type=float,
        metavar="N",
        help="useful TFLOP/s that a GPU, or a core without GPUs, sustains by your own measure",
    )
    plan.add_argument(
        "--price",
        type=float,
        metavar="P",
        help="of an hour of one GPU, or of one core without GPUs",
    )
    plan.add_argument(
        "--trust-code", action="store_true", help="let models of the study run Python"
    )


def _add_look(commands: _Commands) -> None:
    status = commands.add(
        "status", "running.status:status", "Show how far every stage, model and seed of a study is."
    )
    _add_study(status, default="demo")
    status.add_argument("--watch", action="store_true", help="watch until the study has ended")
    sql = commands.add(
        "sql",
        "results.query:sql",
        "Run an SQL query on a study's results: dreamer sql demo 'FROM token_ratios'",
    )
    _add_study(sql, RESULTS)
    sql.add_argument(
        "query", metavar="QUERY", help="one SQL statement, whose rows are printed as a table"
    )
    sql.add_argument(
        "--csv", action="store_true", help="print comma-separated values instead of a table"
    )
    report = commands.add(
        "report", "results.report:report", "Write the report again from the results database."
    )
    _add_study(report, RESULTS, default="demo")
    report.add_argument("--text", action="store_true", help="print its text and tables instead")
    report.add_argument(
        "--watch",
        action="store_true",
        help="serve the page here, written again when results change",
    )
    compare = commands.add(
        "compare",
        "results.compare:compare_studies",
        "Say what differs beyond noise between two studies.",
    )
    for number in ("first", "second"):
        compare.add_argument(number, metavar=number.upper(), help=RESULTS)
        compare.add_argument(
            f"--{number}-study",
            metavar="ID",
            help="which study of a results file that holds several",
        )
    compare.add_argument("--all", action="store_true", help="also print what did not change")
    checkpoints = commands.add(
        "checkpoints",
        "running.checkpoints:checkpoints",
        "Print the folders of the models trained here.",
    )
    _add_study(checkpoints)
    checkpoints.add_argument(
        "--model", metavar="MODEL_ID", help="one model, for example DR+DA-4 (default: all)"
    )
    checkpoints.add_argument("--seed", type=int, help="one seed (default: all)")
    checkpoints.add_argument(
        "--all", action="store_true", help="every checkpoint, not the last of each run alone"
    )
    lm_eval = commands.add(
        "lm-eval",
        "results.lm_eval:lm_eval",
        "Run lm-eval's own command, with all its arguments, on a model trained here: `--model"
        " dreamer`.",
        prefix_chars="\0",  # every argument is lm-eval's, --help as well
        add_help=False,
    )
    lm_eval.add_argument("arguments", nargs=argparse.REMAINDER)


def _add_data(commands: _Commands) -> None:
    sources = commands.add(
        "sources",
        "data.sources:sources",
        "List the sources and benchmarks that can be named in a study.",
    )
    sources.add_argument(
        "--check",
        nargs="*",
        metavar="NAME",
        help="ask the hub for the commits of these (also of a study; default: all)",
    )
    download = commands.add(
        "download", "data.sources:download", "Fetch data sets from the hub into a mirror folder."
    )
    download.add_argument(
        "names",
        metavar="NAME",
        nargs="+",
        help="sources or benchmarks by name, or studies: all they name",
    )
    download.add_argument("--mirror", type=Path, required=True, help="the folder to write")
    dropped = commands.add(
        "dropped",
        "data.dropped:dropped",
        "Show documents that curation dropped, with reason and cause.",
    )
    _add_study(dropped)
    for name in ("stage", "source", "reason"):
        dropped.add_argument(f"--{name}", help=f"only those of this {name}")
    dropped.add_argument(
        "--grade", help="only findings of this grade, also of documents that were kept"
    )
    dropped.add_argument("--id", help="only the document of this id")
    dropped.add_argument(
        "--sample", type=int, metavar="N", help="N at random (default: one of each reason)"
    )
    dropped.add_argument("--seed", type=int, default=0, help="of the random choice (default 0)")
    dropped.add_argument(
        "--format", choices=("text", "csv", "jsonl"), default="text", help="(default text)"
    )
    dropped.add_argument(
        "--html", type=Path, metavar="FILE", help="a page to judge the removals one by one"
    )
    preview = commands.add(
        "preview",
        "data.preview:preview",
        "Print rows of the packed tokens, decoded, as training sees them.",
    )
    _add_study(preview)
    preview.add_argument(
        "--rows", type=int, default=3, metavar="N", help="how many rows (default 3)"
    )
    preview.add_argument(
        "--seed", type=int, help="the seed of the run whose order is shown (default: the first)"
    )


def _add_results(commands: _Commands) -> None:
    export = commands.add(
        "export",
        "results.query:export",
        "Write every table and view of a study's results as files.",
    )
    _add_study(export, RESULTS)
    export.add_argument("folder", metavar="FOLDER", type=Path, help="the folder to write")
    export.add_argument(
        "--format", choices=("parquet", "csv"), default="parquet", help="(default parquet)"
    )
    publish = commands.add(
        "publish",
        "publishing.publish:publish",
        "Write a folder ready for a hub: results, report, models, cards. Nothing is uploaded.",
    )
    _add_study(publish)
    publish.add_argument("folder", metavar="FOLDER", type=Path, help="the folder to write")
    publish.add_argument(
        "--checkpoints",
        choices=("last", "none", "all"),
        default="last",
        help="of each complete run (default last)",
    )
    publish.add_argument(
        "--owner",
        metavar="NAME",
        default="OWNER",
        help="your name on the hub, in ids of models too",
    )
    intervals = commands.add(
        "intervals",
        "results.query:intervals",
        "Compute ratios of tokens again after rows were changed by hand.",
    )
    _add_study(intervals, RESULTS)
    factors = commands.add(
        "factors",
        "results.factors:factors",
        "Compute the ratios of tokens of curves that were trained elsewhere: a table (.csv,"
        " .parquet, .jsonl) with columns variant, seed, tokens, task and score or loss (optional:"
        " items, chance, stderr), a folder of lm-eval's result files, or `example`.",
    )
    factors.add_argument("curves", metavar="CURVES", help="a table, a folder, or `example`")
    factors.add_argument(
        "--items",
        type=Path,
        metavar="FILE",
        help="table: variant, seed, tokens, task, item, score or loss",
    )
    factors.add_argument(
        "--pattern", help="of the paths in a folder of lm-eval: {variant}/seed{seed}/{tokens}"
    )
    factors.add_argument(
        "--baseline", metavar="VARIANT", help="compared with the others (default: the first one)"
    )
    factors.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="[TASK:METRIC=]SCORE",
        help="a score fixed in advance, at which tokens are compared (repeatable), such as 3.28 or"
        " gsm8k:accuracy=0.4; default: the best scores that both models reach",
    )
    factors.add_argument(
        "--decayed-at-end",
        action="store_true",
        help="the learning rate of each run decays towards the run's end",
    )
    factors.add_argument(
        "--report", type=Path, metavar="FILE", help="also write the report, one HTML file"
    )


class _OneLine(argparse.ArgumentParser):
    """Refuse arguments in one line, as everything else is refused.

    The usage is in the help that the line names.
    """

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dreamer: {message}; `{self.prog} --help` shows how\n")

    def parse_known_args(self, *given: Any, **options: Any) -> tuple[argparse.Namespace, list[str]]:
        """Refuse an unknown option here, where the name of its subcommand is known."""
        options_known, unknown = super().parse_known_args(*given, **options)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options_known, unknown
