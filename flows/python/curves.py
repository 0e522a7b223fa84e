"""Compare curves that anybody trained, from Python."""

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
    """Compute how many tokens each variant needs over the baseline's, of curves from anywhere.

    Args:
        curves: a data frame, or the path of a table or a folder as `dreamer factors` reads them; a
            row for each point: `variant`, `seed`, `tokens` (of training, 1 or more), `task`, and
            `score` (an accuracy, 0 to 1) or `loss` (of any unit, lower is better), or both; where
            known also `items` (how many the score is over), `chance` and `stderr`. Usual names are
            found. "example" is the example of the package.
        items: a frame or a table of the scores of single items: the columns of a point, and `item`
        baseline: the variant that the others are compared with; default the first one
        target: a score that was fixed in advance, at which tokens are compared: 0.6, or
            "TASK:accuracy=0.6" where there are several tasks; several in a list
        decayed_at_end: the learning rate decays towards the end of each run
        every_pair: compare every variant with every other, for `token_ratios_against('NAME')`
        tokens_per_step: the tokens of a step, where the curves have steps
        metric, column, pattern, log: as the options of `dreamer factors`, which docs/curves.md
            describes; several in a list

    A message names an option as the command does: `--tokens-per-step` is `tokens_per_step`.
    Returns the results, in a temporary file that is removed when they are no longer used. Raises
    InputError, which names the file or frame and the row, for curves that are wrong or that cannot
    be compared.
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
        # all the time: to open a file again takes as long as a query
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
    """Return the texts of one thing or several, numbers written out."""
    if isinstance(given, str | int | float):
        return [str(given)]
    return [str(one) for one in given]


def _read(curves: pd.DataFrame | Path | str, asked: Asked) -> Curves:
    if isinstance(curves, str | Path):
        return read(EXAMPLE if curves == "example" else Path(curves), asked)
    return read_frame(curves, asked)
