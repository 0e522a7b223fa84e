"""`dreamer sql`, `export`, `migrate`, `intervals`: query a results file, write its tables, bring it up to date."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from flows.commands.tables import print_table
from flows.study.loading import load_study
from pipeline.errors import InputError
from sql import export as tables
from sql.results import connect, query
from sql.statistics.compute import compute_statistics


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
    """Bring the tables and views of a results file up to date."""
    database, _ = find_results(options.study, options.root)
    connect(database).close()
    print(f"{database}: up to date")


def intervals(options: argparse.Namespace) -> None:
    """Compute the intervals of the factors of a study, or of every study that a results file holds."""
    database, wanted = find_results(options.study, options.root)
    known = list(query(database, "SELECT DISTINCT study_id FROM models ORDER BY ALL")["study_id"])
    chosen = [study for study in known if wanted in (None, study)]
    if not chosen:
        raise InputError(f"{database}: holds no models of {wanted or 'any study'}")
    with closing(connect(database)) as connection:
        for study in chosen:
            compute_statistics(connection, study)
    print(f"{database}: computed the intervals of {', '.join(chosen)}")


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
