"""`dreamer migrate`: bring a results file of an older version up to date."""

from __future__ import annotations

import argparse

from flows.commands.results.finding import find_results
from sql.results import connect


def migrate(options: argparse.Namespace) -> None:
    """Bring the tables and views of a results file up to date."""
    database, _ = find_results(options.study, options.root)
    connect(database).close()
    print(f"{database}: up to date")
