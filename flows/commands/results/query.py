"""`dreamer sql` and `dreamer export`: query a results file, or write its tables and views for other programs."""

from __future__ import annotations

import argparse
import sys

from flows.commands.results.finding import find_results
from flows.commands.tables import print_table
from sql import export as tables
from sql.results import query


def sql(options: argparse.Namespace) -> None:
    """Print the rows of a query as a table or as comma-separated values."""
    table = query(find_results(options.study, options.root)[0], options.query)
    if options.csv:
        tables.plain_cells(table).to_csv(sys.stdout, index=False)
    else:
        print_table(table)


def export(options: argparse.Namespace) -> None:
    """Write every table and view as a file, and print the paths."""
    database, _ = find_results(options.study, options.root)
    print(*tables.export(database, options.folder, format=options.format), sep="\n")
