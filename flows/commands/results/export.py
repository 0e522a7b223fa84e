"""`dreamer export`: write the tables and views of a results file for other programs."""

from __future__ import annotations

import argparse

from flows.commands.results.finding import find_results
from sql import export as tables


def export(options: argparse.Namespace) -> None:
    """Write every table and view as a file, and print the paths."""
    database, _ = find_results(options.study, options.root)
    print(*tables.export(database, options.folder, format=options.format), sep="\n")
