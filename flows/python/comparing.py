"""Compare the results of two studies from Python."""

from __future__ import annotations

from dreamer_study.flows.python.loading import StudyLike
from dreamer_study.flows.python.results import Results, results
from dreamer_study.sql.statistics.comparison import Comparison
from dreamer_study.sql.statistics.comparison import compare as compare_studies


def compare(first: Results | StudyLike, second: Results | StudyLike) -> Comparison:
    """Test which scores of two studies differ by more than noise.

    Args:
        first, second: `Results`, or anything that `results` takes: a study, its folder or its
            results file

    Returns a `Comparison`: the verdict in a sentence, data frames of accuracies, ratios and losses
    (one row for each model and task that both studies have), and notes on everything left out.

    Raises InputError if a study has no results, if both are the same study, or if the two have no
    model, task and item in common.
    """
    sides = [side if isinstance(side, Results) else results(side) for side in (first, second)]
    return compare_studies(
        sides[0].path,
        sides[1].path,
        first_study=sides[0].study_id,
        second_study=sides[1].study_id,
    )
