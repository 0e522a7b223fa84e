"""`dreamer sql`, `dreamer export`: query a results file, write its tables."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flows.commands.tables import print_table
from flows.study.loading import load_study
from pipeline.errors import InputError
from sql import export as tables
from sql.results import connect, query


def sql(options: argparse.Namespace) -> None:
    """Print the rows of a query as a table or as comma-separated values."""
    table = query(find_results(options.study, options.root)[0], options.query)
    if options.csv:
        table.to_csv(sys.stdout, index=False)
    else:
        print_table(table)


def export(options: argparse.Namespace) -> None:
    """Write every table and view as a file, and print the paths."""
    database, _ = find_results(options.study, options.root)
    print(*tables.export(database, options.folder, format=options.format), sep="\n")


def migrate(options: argparse.Namespace) -> None:
    """Bring the tables and views of a results file up to date; nothing else but ingest changes a file."""
    database, _ = find_results(options.study, options.root)
    connect(database).close()
    print(f"{database}: up to date")


def find_results(name: str, root: Path | None) -> tuple[Path, str | None]:
    """Find the results file of a study, or take a results file's own path; returns the study's id, if one is named.

    Raises InputError where the file does not exist.
    """
    if Path(name).suffix == ".duckdb":
        if not Path(name).exists():
            raise InputError(f"{name}: no such results file")
        return Path(name), None
    study = load_study(name, root=root)
    if not study.database.exists():
        raise InputError(f"{study.database}: no results yet; `dreamer run {study.arguments}` makes them")
    return study.database, study.study_id
