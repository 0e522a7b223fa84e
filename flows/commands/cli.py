"""The `dreamer` command: parse the arguments, run one subcommand, and turn errors into one line and an exit status."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from flows.running.processes import BAD_INPUT, Failed
from pipeline.errors import InputError

BAD_PLACES = (errno.EROFS, errno.ENAMETOOLONG)
BAD_PATHS = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)

DESCRIPTION = """\
How many training tokens does each architecture need to reach the same accuracy?
dreamer takes a study from raw public data to a report: it curates and tokenises the data, matches the models in
FLOPs and parameters, trains them on the same tokens, evaluates every checkpoint with lm-eval, and computes
data-efficiency factors with their uncertainty.

A STUDY is a preset's name (demo, gpu-small, paper-mini, paper-16, paper-32) or the path of a YAML file."""
A_STUDY = "a preset's name or a YAML file"
RESULTS = "a preset's name, a YAML file or a results file"
OLD_NAMES = {"carry": "bundle", "adopt": "collect"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status (0 done, 1 failed, 2 bad input)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in OLD_NAMES:
        given[0] = OLD_NAMES[given[0]]
    options = parser().parse_args(given)
    module, function = options.command.split(":")
    try:
        return getattr(import_module(f"flows.commands.{module}"), function)(options) or 0
    except InputError as error:
        print(f"dreamer: {error}", file=sys.stderr)
        return BAD_INPUT
    except Failed as error:
        print(f"dreamer: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("dreamer: stopped; run the same command again to go on from here", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output (head, less) has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"dreamer: {error}", file=sys.stderr)
        return BAD_INPUT if isinstance(error, BAD_PATHS) or error.errno in BAD_PLACES else 1


def parser() -> argparse.ArgumentParser:
    """Build the parser of all subcommands. The default `command` names what runs one: `<module of this folder>:<name>`.

    A module is imported only when its subcommand runs: `dreamer --help` answers at once.
    """
    top = argparse.ArgumentParser(
        prog="dreamer", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, command: str, words: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=words, description=words)
        sub.set_defaults(command=command)
        return sub

    def add_study(sub: argparse.ArgumentParser, help: str = A_STUDY, *, default: str | None = None) -> None:
        sub.add_argument("study", metavar="STUDY", nargs="?" if default else None, default=default, help=help)
        sub.add_argument("--root", type=Path, help="where the study writes (default runs/<name>)")

    def add_mirror(sub: argparse.ArgumentParser, more: str = "") -> None:
        sub.add_argument("--mirror", type=Path, help=f"folder with data sets in the hub's layout{more}")

    run = add("run", "run:run", "Run a study to its report; what is already done is not done again.")
    add_study(run, default="demo")
    add_mirror(run, ", looked in before the hub")
    run.add_argument(
        "--accept-code-change", action="store_true", help="go on with trainings that other code has started; recorded"
    )
    plan = add(
        "plan", "plan:plan", "Show the matched models, FLOPs, tokens, disk and time a study needs; does no work."
    )
    add_study(plan, default="demo")
    add_mirror(plan)
    status = add("status", "status:status", "Show how far a study is.")
    add_study(status, default="demo")
    report = add("report", "report:report", "Write the report again from the results database.")
    add_study(report, RESULTS, default="demo")
    report.add_argument("--text", action="store_true", help="print its text and tables instead")
    report.add_argument(
        "--watch", action="store_true", help="serve the page on this machine, written again when results change"
    )
    sql = add(
        "sql",
        "results:sql",
        "Run an SQL query on a study's results, for example: dreamer sql demo 'FROM mean_factors'",
    )
    add_study(sql, RESULTS)
    sql.add_argument("query", metavar="QUERY", help="one SQL statement; without rows are printed as a table")
    sql.add_argument("--csv", action="store_true", help="print comma-separated values instead of a table")
    compare = add("compare", "compare:compare_studies", "Compare two studies: did anything change beyond noise?")
    for number in ("first", "second"):
        compare.add_argument(number, metavar=number.upper(), help=RESULTS)
        compare.add_argument(f"--{number}-study", metavar="ID", help="which study of a results file that holds several")
    export = add("export", "results:export", "Write every table and view of a study's results as files.")
    add_study(export, RESULTS)
    export.add_argument("folder", metavar="FOLDER", type=Path, help="the folder to write")
    export.add_argument("--format", choices=("parquet", "csv"), default="parquet", help="(default parquet)")
    dropped = add(
        "dropped", "dropped:dropped", "Show documents that curation dropped, with the reason and what caused it."
    )
    add_study(dropped)
    for name in ("stage", "source", "reason"):
        dropped.add_argument(f"--{name}", help=f"only those of this {name}")
    dropped.add_argument("--limit", type=int, default=5, metavar="N", help="how many examples (default 5)")
    preview = add("preview", "preview:preview", "Print decoded rows of the packed token stream, as training sees them.")
    add_study(preview)
    preview.add_argument("--rows", type=int, default=3, metavar="N", help="how many rows (default 3)")
    preview.add_argument("--seed", type=int, help="the seed of the run whose order is shown (default: the first)")
    profile = add("profile", "profile:profile", "Measure where one training step of a model spends its time.")
    add_study(profile)
    profile.add_argument("--model", metavar="MODEL_ID", help="one model, for example DR+DA-4 (default: all)")
    sources = add(
        "sources", "sources:sources", "List the training sources and benchmarks that can be named in a study."
    )
    sources.add_argument("--long", action="store_true", help="with columns, filters and revisions")
    download = add(
        "download",
        "sources:download",
        "Fetch data sets from the hub into a mirror folder, for machines without a network.",
    )
    download.add_argument(
        "names", metavar="NAME", nargs="+", help="sources or benchmarks by name, or studies: all they name"
    )
    download.add_argument("--mirror", type=Path, required=True, help="the folder to write")
    bundle = add(
        "bundle",
        "bundle:bundle",
        "Prepare a study and write all that a bare machine (torch, no network) needs to run it.",
    )
    add_study(bundle)
    bundle.add_argument("folder", metavar="FOLDER", type=Path, help="the folder to write and to take to that machine")
    add_mirror(bundle)
    collect = add("collect", "bundle:collect", "Ingest the results of a bundled study, and write its report.")
    add_study(collect)
    collect.add_argument(
        "folder", metavar="FOLDER", type=Path, help="the bundle's folder, after python -m model.carried"
    )
    add_mirror(collect)
    return top


if __name__ == "__main__":
    sys.exit(main())
