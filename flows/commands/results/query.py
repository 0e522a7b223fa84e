"""`dreamer sql`: query a results file."""

from __future__ import annotations

import argparse
import sys

from flows.commands.results.finding import find_results
from flows.commands.tables import print_table
from sql.export import plain_cells
from sql.results import query


def sql(options: argparse.Namespace) -> None:
    """Print the rows of a query as a table or as comma-separated values."""
    table = query(find_results(options.study, options.root)[0], options.query)
    if options.csv:
        plain_cells(table).to_csv(sys.stdout, index=False)
    else:
        print_table(table)
