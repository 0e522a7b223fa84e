"""Read the wide table that Weights & Biases exports from a plot.

The columns of one run and metric, over `Step` or an axis of the runs' own:

    "Step","base-s0 - eval/acc","base-s0 - eval/acc__MIN","base-s0 - eval/acc__MAX"
    "125","0.18163","0.18163","0.18163"
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.kinds import kind_of
from dreamer_study.reports.curves.patterns import counted
from dreamer_study.reports.curves.rows import FILE, ROW, Rows

BETWEEN = " - "  # of the name of a run and the metric
BOUNDS = ("__MIN", "__MAX")
TIMES = ("relative time", "wall time", "_timestamp", "_runtime")


def is_wide(columns: Iterable[str]) -> bool:
    """Tell whether columns are those of such a table."""
    names = [name for name in columns if name not in (FILE, ROW)]
    of_runs = [name for name in names if BETWEEN in name]
    return bool(of_runs) and len(names) - len(of_runs) <= 2


def long_rows(rows: Rows) -> Rows:
    """Return a row for each filled cell: run, task, value, and the axis under its own name.

    The rows of a run come in the order of the file, so that a later cell counts.
    """
    axes = [
        name for name in rows.names if BETWEEN not in name and not rows.frame[name].isna().all()
    ]
    if not axes:
        raise InputError(f"{rows.files[0]}: no column of steps beside those of the runs")
    axis = axes[0]
    if axis.lower().startswith(TIMES):
        raise InputError(
            f"{rows.files[0]}: the axis {axis!r} is a time; export the plot over Step or tokens"
        )
    is_tokens = "token" in axis.lower()
    parts = []
    missing = 0
    for name in [name for name in rows.names if BETWEEN in name]:
        run, _, metric = name.rpartition(BETWEEN)
        if metric.endswith(BOUNDS) or metric.startswith("_"):
            continue
        cells = rows.frame[name]
        is_written = cells.notna()
        is_nan = is_written & cells.astype(str).str.lower().eq("nan")
        missing += int(is_nan.sum())
        kept = is_written & ~is_nan
        values = {"run": run, "task": metric, "value": cells[kept]}
        part = rows.frame.loc[kept, [FILE, ROW, axis]].assign(**values)
        parts.append(part.rename(columns={axis: "tokens" if is_tokens else "step"}))
    notes = [f"{counted(missing, 'cell')} NaN, which is no point"] if missing else []
    frame = pd.concat(parts)
    unknown = [task for task in frame["task"].unique() if kind_of(task) is None]
    known = [task for task in frame["task"].unique() if kind_of(task) is not None]
    if known and unknown:
        frame = frame[frame["task"].isin(known)]
    ignored = unknown if known else []
    return rows.having(frame, *notes, is_log=True, ignored=ignored)
