"""`dreamer sql`, `export` and `intervals`: query a results file, export it, compute intervals."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from dreamer_study.flows.commands.tables import print_table
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql import export as tables
from dreamer_study.sql.results import ask, connect, query


def sql(options: argparse.Namespace) -> None:
    """Print the rows of a query as a table or as comma-separated values."""
    database, _ = find_results(options.study, options.root)
    table = query(database, options.query)
    if options.csv:
        tables.plain_cells(table).to_csv(sys.stdout, index=False)
    else:
        print_table(table)


def export(options: argparse.Namespace) -> None:
    """Write every table and view as a file, and print the paths."""
    database, _ = find_results(options.study, options.root)
    print(*tables.export(database, options.folder, format=options.format), sep="\n")


def intervals(options: argparse.Namespace) -> None:
    """Compute the ratios, with intervals, of a study, or of every study of a results file."""
    database, wanted = find_results(options.study, options.root)
    by_study = ask(database, "replicates").set_index("study_id")["replicates"]
    chosen = {
        study: int(replicates) for study, replicates in by_study.items() if wanted in (None, study)
    }
    if not chosen:
        raise InputError(f"{database}: holds no models of {wanted or 'any study'}")
    # with scipy, for which a query need not wait
    from dreamer_study.sql.statistics.compute import compute_statistics

    with closing(connect(database)) as connection:
        for study, replicates in chosen.items():
            compute_statistics(connection, study, replicates=replicates)
    print(f"{database}: computed the ratios and intervals of {', '.join(chosen)}")


def find_results(name: str, root: Path | None) -> tuple[Path, str | None]:
    """Find the results file of a study or a published folder, or take its own path.

    Returns the study's id too, if a study is named. Raises InputError where the file does not
    exist.
    """
    if Path(name).suffix == ".duckdb":
        if not Path(name).exists():
            raise InputError(f"{name}: no such results file")
        return Path(name), None
    # takes longer to be imported than a query
    from dreamer_study.flows.study.loading import load_study, presets

    published = Path(name) / "results.duckdb"
    if name not in presets() and published.exists():
        return published, None
    study = load_study(name, root=root)
    if not study.database.exists():
        raise InputError(
            f"{study.database}: no results yet; `dreamer run {study.arguments}` makes them"
        )
    return study.database, study.study_id
