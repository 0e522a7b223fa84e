"""Compare learning curves from any source, from Python."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from dreamer_study.flows.python.results import Results
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.entering import (
    EXAMPLE,
    STUDY,
    enter_curves,
    metrics_taken,
    read_targets,
    within_intervals,
)
from dreamer_study.reports.curves.patterns import listed
from dreamer_study.reports.curves.points import Curves
from dreamer_study.reports.curves.reading import read, read_frame
from dreamer_study.sql.results import connect

if TYPE_CHECKING:
    import pandas as pd


def factors(
    curves: pd.DataFrame | Path | str,
    *,
    items: pd.DataFrame | Path | str | None = None,
    baseline: str | None = None,
    target: float | str | Sequence[float | str] = (),
    decayed_at_end: bool = False,
    every_pair: bool = False,
    tokens_per_step: int | None = None,
    metric: str | None = None,
    column: str | Sequence[str] = (),
    pattern: str | None = None,
    log: str | Sequence[str] = (),
) -> Results:
    """Compute token ratios from learning curves: each variant's tokens over the baseline's.

    Args:
        curves: a data frame with one row for each point, or the path of a table or a folder that
            `dreamer factors` can read, or "example" for the example of the package. A point has
            the columns `variant`, `seed`, `tokens` (training tokens, 1 or more), `task`, and
            `score` (an accuracy, 0 to 1) or `loss` (in any unit, lower is better), or both. The
            columns `items` (the number of items behind the score), `chance` (the accuracy of
            guessing) and `stderr` (the standard error of the score) are optional. Other usual
            names of these columns are recognised.
        items: a data frame or the path of a table with the scores of single items: the columns of
            a point, and `item`
        baseline: the variant that the others are compared with; by default the first one
        target: a score, fixed in advance, at which tokens are compared, such as 0.6, or
            "TASK:accuracy=0.6" if there are several tasks; a list holds several targets
        decayed_at_end: whether the learning rate decays towards the end of each run
        every_pair: compare every pair of variants, for `token_ratios_against('NAME')` in SQL
        tokens_per_step: the number of tokens in a step, if the curves count steps
        metric, column, pattern, log: as the options of `dreamer factors`, which docs/curves.md
            describes; a list holds several values

    Returns the results. They are in a temporary file, which is removed once the results are no
    longer used.

    Raises InputError for curves that are wrong or cannot be compared. The message names the file or
    frame and the row, and writes options as the command does: `--tokens-per-step` is
    `tokens_per_step`.
    """
    asked = Asked(
        items=Path(items) if isinstance(items, str) else items,
        pattern=pattern,
        logs=_texts(log),
        columns=_texts(column),
        tokens_per_step=None if tokens_per_step is None else str(tokens_per_step),
        metric=metric,
    )
    taken = _read(curves, asked)
    targets = read_targets(_texts(target), taken)
    folder = Path(tempfile.mkdtemp(prefix="dreamer-factors-"))
    try:
        database = folder / "results.duckdb"
        # stays open throughout, since opening a file again takes as long as a query
        with closing(connect(database)):
            enter_curves(
                database,
                taken,
                baseline=baseline,
                targets=targets,
                decayed_at_end=decayed_at_end,
                every_pair=every_pair,
            )
            notes = [*taken.notes, *metrics_taken(database)]
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    notes.append(f"intervals: {within_intervals(taken)}")
    if taken.ignored:
        notes.append(f"not read: {listed(taken.ignored)}")
    found = Results(database, STUDY, notes=tuple(notes))
    weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found


def _texts(given: float | str | Sequence[float | str]) -> list[str]:
    """Return one value or several as a list of texts."""
    if isinstance(given, str | int | float):
        return [str(given)]
    return [str(one) for one in given]


def _read(curves: pd.DataFrame | Path | str, asked: Asked) -> Curves:
    if isinstance(curves, str | Path):
        return read(EXAMPLE if curves == "example" else Path(curves), asked)
    return read_frame(curves, asked)
