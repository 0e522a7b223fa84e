"""Compare the results of studies from Python."""

from __future__ import annotations

from dreamer_study.flows.python.loading import StudyLike
from dreamer_study.flows.python.results import Results, results
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.statistics.comparison import Comparison
from dreamer_study.sql.statistics.comparison import compare as compare_studies
from dreamer_study.sql.statistics.corpora import TokenComparison, compare_corpora
from dreamer_study.sql.statistics.sizes import SizeComparison, over_sizes


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


def compare_tokens(
    *studies: Results | StudyLike, despite_differences: bool = False
) -> TokenComparison:
    """Compute what other data are worth to the same models, in tokens of the first study.

    Args:
        studies: two or more `Results`, or anything that `results` takes; the first one is what the
            others are compared with
        despite_differences: compare studies whose models or recipes differ, too

    Returns a `TokenComparison`: data frames of ratios (one row for each model, study, task and
    metric) and of accuracies on benchmark items that leaked into the training data of a study, and
    notes.

    Raises InputError if a study has no results, or if the studies differ in their tokenizer, in the
    items of a benchmark or in how they evaluate, have no model in common, or, without
    `despite_differences`, differ in models or recipes.
    """
    sides = [side if isinstance(side, Results) else results(side) for side in studies]
    return compare_corpora(
        [(side.path, side.study_id) for side in sides], despite=despite_differences
    )


def compare_sizes(*studies: Results | StudyLike, over: str = "flops") -> SizeComparison:
    """Compute how the ratios of tokens change with the size of the models.

    Args:
        studies: two or more `Results`, or anything that `results` takes, of models of different
            sizes
        over: flops, parameters, or a size of the baseline such as hidden_size, which the rows name

    Returns a `SizeComparison`: data frames of ratios (one row for each study, model, task and
    metric), of trends (by which factor ten times the FLOPs a token change the ratio, with its 95 %
    interval) and of the fitted lines, and notes on what is left out or differs.

    Raises InputError if a study has no results or no ratios, or if the studies have fewer than two
    sizes, other questions, other baselines, no variant in common, or no such size.
    """
    sides = [side if isinstance(side, Results) else results(side) for side in studies]
    if len(sides) < 2:
        raise InputError("compare_sizes takes two or more studies, one for each size")
    return over_sizes([(side.path, side.study_id) for side in sides], over)
