"""`dreamer intervals`: compute the intervals of factors, as for results that were entered by hand."""

from __future__ import annotations

import argparse
from contextlib import closing

from flows.commands.results.finding import find_results
from pipeline.errors import InputError
from sql.results import connect, query
from sql.statistics.compute import compute_statistics


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
