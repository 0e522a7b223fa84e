"""`dreamer intervals`: compute mean factors with their intervals, as for results that were entered by hand."""

from __future__ import annotations

import argparse
from contextlib import closing

from flows.commands.results.finding import find_results
from pipeline.errors import InputError
from sql.results import ask, connect
from sql.statistics.compute import compute_statistics


def intervals(options: argparse.Namespace) -> None:
    """Compute the mean factors, with their intervals, of a study or of every study that a results file holds."""
    database, wanted = find_results(options.study, options.root)
    asked = ask(database, "replicates").set_index("study_id")["replicates"]
    chosen = {study: int(replicates) for study, replicates in asked.items() if wanted in (None, study)}
    if not chosen:
        raise InputError(f"{database}: holds no models of {wanted or 'any study'}")
    with closing(connect(database)) as connection:
        for study, replicates in chosen.items():
            compute_statistics(connection, study, replicates=replicates)
    print(f"{database}: computed the mean factors and intervals of {', '.join(chosen)}")
