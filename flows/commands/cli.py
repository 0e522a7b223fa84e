"""The `dreamer` command: run a study, plan it, look at it, query it, fetch its data."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from flows.running.processes import Failed
from pipeline.errors import InputError

BAD_INPUT = 2
BAD_PLACES = (errno.EROFS, errno.ENAMETOOLONG)
BAD_PATHS = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)

DESCRIPTION = """\
How many training tokens does each architecture need to reach the same accuracy?
dreamer takes a study from raw public data to a report: it curates and tokenises the data, matches the models in
FLOPs and parameters, trains them on the same tokens, evaluates every checkpoint with lm-eval, and computes
data-efficiency factors with their uncertainty.

A STUDY is a preset's name (demo, gpu-small, paper-mini, paper-16, paper-32) or the path of a YAML file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status (0 done, 1 failed, 2 bad input)."""
    chosen = parser().parse_args(arguments)
    try:
        return chosen.command(chosen) or 0
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
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="dreamer", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int | None], words: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=words, description=words)
        sub.set_defaults(command=command)
        return sub

    def add_study(
        sub: argparse.ArgumentParser, *, default: str | None = None, help: str = "a preset's name or a YAML file"
    ) -> None:
        sub.add_argument(
            "study",
            metavar="STUDY",
            nargs="?" if default else None,
            default=default,
            help=help,
        )
        sub.add_argument("--root", type=Path, help="where the study writes (default runs/<name>)")

    run = add("run", _run, "Run a study to its report; what is already done is not done again.")
    add_study(run, default="demo")
    run.add_argument("--mirror", type=Path, help="folder with data sets in the hub's layout, looked in before the hub")
    plan = add("plan", _plan, "Show the matched models, FLOPs, tokens, disk and time a study needs; does no work.")
    add_study(plan, default="demo")
    plan.add_argument("--mirror", type=Path, help="folder with data sets in the hub's layout")
    status = add("status", _status, "Show how far a study is.")
    add_study(status, default="demo")
    report = add("report", _report, "Write the report again from the results database.")
    add_study(report, default="demo")
    sql = add(
        "sql", _sql, "Run an SQL query on a study's results, for example: dreamer sql demo 'FROM data_efficiency'"
    )
    with_results = "a preset's name, a YAML file or a results file"
    add_study(sql, help=with_results)
    sql.add_argument("query", metavar="QUERY", help="one SQL statement; without rows are printed as a table")
    sql.add_argument("--csv", action="store_true", help="print comma-separated values instead of a table")
    compare = add("compare", _compare, "Compare two studies: did anything change beyond noise?")
    for number in ("first", "second"):
        compare.add_argument(number, metavar=number.upper(), help=with_results)
        compare.add_argument(f"--{number}-study", metavar="ID", help="which study of a results file that holds several")
    export = add("export", _export, "Write every table and view of a study's results as files.")
    add_study(export, help=with_results)
    export.add_argument("folder", metavar="FOLDER", type=Path, help="the folder to write")
    export.add_argument("--format", choices=("parquet", "csv"), default="parquet", help="(default parquet)")
    dropped = add("dropped", _dropped, "Show documents that curation dropped, with the reason and what caused it.")
    add_study(dropped)
    for name in ("stage", "source", "reason"):
        dropped.add_argument(f"--{name}", help=f"only those of this {name}")
    dropped.add_argument("--limit", type=int, default=5, metavar="N", help="how many examples (default 5)")
    preview = add("preview", _preview, "Print decoded rows of the packed token stream, as training sees them.")
    add_study(preview)
    preview.add_argument("--rows", type=int, default=3, metavar="N", help="how many rows (default 3)")
    preview.add_argument("--seed", type=int, help="the seed of the run whose order is shown (default: the first)")
    profile = add("profile", _profile, "Measure where one training step of a model spends its time.")
    add_study(profile)
    profile.add_argument("--model", metavar="MODEL_ID", help="one model, for example DR+DA-4 (default: all)")
    sources = add("sources", _sources, "List the training sources and benchmarks that can be named in a study.")
    sources.add_argument("--long", action="store_true", help="with columns, filters and revisions")
    download = add(
        "download", _download, "Fetch data sets from the hub into a mirror folder, for machines without a network."
    )
    download.add_argument(
        "names", metavar="NAME", nargs="+", help="sources or benchmarks by name, or studies: all they name"
    )
    download.add_argument("--mirror", type=Path, required=True, help="the folder to write")
    carry = add(
        "carry", _carry, "Prepare a study and write all that a bare machine (torch, no network) needs to run it."
    )
    add_study(carry)
    carry.add_argument("folder", metavar="FOLDER", type=Path, help="the folder to write and to carry")
    carry.add_argument("--mirror", type=Path, help="folder with data sets in the hub's layout")
    adopt = add("adopt", _adopt, "Enter the results of a carried study, and write its report.")
    add_study(adopt)
    adopt.add_argument("folder", metavar="FOLDER", type=Path, help="the carried folder, after python -m model.carried")
    adopt.add_argument("--mirror", type=Path, help="folder with data sets in the hub's layout")
    return top


def _run(chosen: argparse.Namespace) -> None:
    from flows.running import progress
    from flows.study.configuration import load_study

    study = load_study(chosen.study, mirror=chosen.mirror, root=chosen.root)
    from flows.commands.run import is_complete, preflight, run_in_process

    if is_complete(study):
        print(f"Nothing to do: {study.study_id} is complete.", file=sys.stderr)
    else:
        preflight(study)
        with progress.on_terminal():
            run_in_process(study, chosen.study, chosen.mirror, chosen.root)
    from flows.commands.show import print_outcome

    print_outcome(study)


def _carry(chosen: argparse.Namespace) -> None:
    from flows.commands.carry import carry
    from flows.running import progress
    from flows.study.configuration import load_study

    with progress.on_terminal():
        plan = carry(load_study(chosen.study, mirror=chosen.mirror, root=chosen.root), chosen.folder)
    print(
        f"{chosen.folder}: {len(plan['runs'])} runs of {plan['study_id']}. There, with this project's folder beside it:"
    )
    print(f"  python -m model.carried {chosen.folder.name} --processes 1")
    print(f"and back here: dreamer adopt {chosen.study} {chosen.folder}")


def _adopt(chosen: argparse.Namespace) -> None:
    from flows.commands.carry import adopt
    from flows.commands.show import print_outcome
    from flows.study.configuration import load_study
    from reports.page.report import write_report

    study = load_study(chosen.study, mirror=chosen.mirror, root=chosen.root)
    adopt(study, chosen.folder)
    write_report(study.database, study.study_id, study.report.parent)
    print_outcome(study)


def _plan(chosen: argparse.Namespace) -> None:
    from flows.commands.plan import print_plan
    from flows.study.configuration import load_study

    print_plan(load_study(chosen.study, mirror=chosen.mirror, root=chosen.root))


def _status(chosen: argparse.Namespace) -> None:
    from flows.commands.show import print_status
    from flows.study.configuration import load_study

    print_status(load_study(chosen.study, root=chosen.root))


def _report(chosen: argparse.Namespace) -> None:
    from reports.page.report import write_report
    from sql.results import query

    database, wanted = _results(chosen.study, chosen.root)
    known = list(
        query(database, "SELECT study_id FROM studies ORDER BY created_at DESC NULLS LAST, study_id")["study_id"]
    )
    if not known:
        raise InputError(f"{database}: holds no study yet")
    # Of a results file by itself, or of a study whose file has changed since, the newest that is there.
    print(write_report(database, wanted if wanted in known else known[0], database.parent / "report"))


def _sql(chosen: argparse.Namespace) -> None:
    from flows.commands.show import print_table
    from sql.results import query

    table = query(_database(chosen), chosen.query)
    if chosen.csv:
        table.to_csv(sys.stdout, index=False)
    else:
        print_table(table)


def _compare(chosen: argparse.Namespace) -> None:
    from flows.commands.compare import print_comparison

    (first, first_study), (second, second_study) = (_results(name, None) for name in (chosen.first, chosen.second))
    print_comparison(
        first,
        second,
        first_study=chosen.first_study or first_study,
        second_study=chosen.second_study or second_study,
    )


def _export(chosen: argparse.Namespace) -> None:
    from sql.export import export

    print(*export(_database(chosen), chosen.folder, format=chosen.format), sep="\n")


def _dropped(chosen: argparse.Namespace) -> None:
    from flows.commands.dropped import print_dropped
    from flows.study.configuration import load_study

    study = load_study(chosen.study, root=chosen.root)
    print_dropped(study, stage=chosen.stage, source=chosen.source, reason=chosen.reason, limit=chosen.limit)


def _preview(chosen: argparse.Namespace) -> None:
    from flows.commands.preview import print_preview
    from flows.study.configuration import load_study

    print_preview(load_study(chosen.study, root=chosen.root), rows=chosen.rows, seed=chosen.seed)


def _profile(chosen: argparse.Namespace) -> None:
    from flows.commands.profile import print_profile
    from flows.study.configuration import load_study

    print_profile(load_study(chosen.study, root=chosen.root), chosen.model)


def _database(chosen: argparse.Namespace) -> Path:
    """The results file of a study that has one; also a file's own path is taken."""
    return _results(chosen.study, chosen.root)[0]


def _results(name: str, root: Path | None) -> tuple[Path, str | None]:
    """The results file that a study's name, its file or the results file's own path means, and the study's id."""
    from flows.study.configuration import load_study

    if Path(name).suffix == ".duckdb":
        if not Path(name).exists():
            raise InputError(f"{name}: no such results file")
        return Path(name), None
    study = load_study(name, root=root)
    if not study.database.exists():
        raise InputError(f"{study.database}: no results yet; `dreamer run {study.words}` makes them")
    return study.database, study.study_id


def _sources(chosen: argparse.Namespace) -> None:
    from flows.commands.show import print_sources

    print_sources(long=chosen.long)


def _download(chosen: argparse.Namespace) -> None:
    from flows.commands.download import download_all
    from flows.running import progress

    with progress.on_terminal():
        folders = download_all(chosen.names, chosen.mirror)
    print(*folders, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
