"""Compare the results of two studies from Python."""

from __future__ import annotations

from dreamer_study.flows.python.loading import StudyLike
from dreamer_study.flows.python.results import Results, results
from dreamer_study.sql.statistics.comparison import Comparison
from dreamer_study.sql.statistics.comparison import compare as compare_studies


def compare(first: Results | StudyLike, second: Results | StudyLike) -> Comparison:
    """Test what changed between two studies beyond noise.

    Args:
        first, second: `Results`, or what `results` takes: a study, its folder or its results file

    Returns the verdict in a sentence, frames of accuracies, ratios and losses (a row for each model
    and task that both studies have, with the columns of each side), and a note for what is left
    out. Raises InputError where there are no results, where both are the same study, and where the
    two have no model, task and item in common.
    """
    sides = [side if isinstance(side, Results) else results(side) for side in (first, second)]
    return compare_studies(
        sides[0].path,
        sides[1].path,
        first_study=sides[0].study_id,
        second_study=sides[1].study_id,
    )
