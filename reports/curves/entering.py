"""Read curves of any kind, and enter them into a results file as a study with its factors."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pandas as pd
import pyarrow as pa

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.reports.curves.lm_eval import read_lm_eval
from dreamer_study.reports.curves.points import Curves, read_curves
from dreamer_study.sql.results import connect, ingest, query
from dreamer_study.sql.statistics.bootstrap import without
from dreamer_study.sql.statistics.compute import compute_statistics

STUDY = "curves"
EXAMPLE = Path(__file__).with_name("example.csv")


def read(path: Path, *, items: Path | None = None, pattern: str | None = None) -> Curves:
    """Read a table of points with its table of items, or a folder of lm-eval's result files.

    Of a folder, `pattern` is that of the paths.
    """
    if path.is_dir() and items:
        raise InputError(f"{path}: lm-eval's samples are the items of a folder; leave --items out")
    if pattern and not path.is_dir():
        raise InputError(f"{path}: --pattern is of a folder of lm-eval's result files")
    if path.is_dir():
        return read_lm_eval(path, pattern)
    return read_curves(path, items)


def enter_curves(
    database: Path, curves: Curves, *, baseline: str | None, replicates: int = 1000
) -> None:
    """Enter curves into a new results file as the study `curves`, and compute its mean factors.

    The variants keep the order of the rows, and the first one is the baseline unless one is named.
    Raises InputError for a baseline that is not among the variants, and where no variant has a
    value in common with the baseline.
    """
    variants = list(curves.points["variant"].unique())
    if baseline and baseline not in variants:
        raise InputError(
            f"no variant {baseline!r}{nearest(baseline, variants)}; they are {', '.join(variants)}"
        )
    baseline = baseline or variants[0]
    models = pd.DataFrame(
        {"model_id": variants, "variant": variants, "place": range(1, len(variants) + 1)}
    )
    runs = curves.points[["variant", "seed"]].drop_duplicates()
    tables = {
        "studies": pd.DataFrame({"name": [STUDY], "baseline": [baseline]}),
        "models": models,
        "runs": _of_runs(runs).assign(model_id=runs["variant"], seed=runs["seed"]),
    }
    tables = {name: frame.assign(study_id=STUDY) for name, frame in tables.items()}
    tables["evaluations"] = _of_runs(curves.points)
    if curves.items is not None:
        tables["items"] = _of_runs(curves.items)
    ingest(
        database,
        {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in tables.items()},
    )
    with closing(connect(database)) as connection:
        factors = compute_statistics(connection, STUDY, replicates=replicates)
    with_bound = factors[
        (factors["baseline"] == baseline)
        & (factors["variant"] != baseline)
        & factors["bound"].notna()
    ]
    # Averages without a family are no answer of their own.
    if all(task.startswith(without("")) for task in with_bound["task"]):
        raise InputError(_why_no_factor(database, baseline))


def _why_no_factor(database: Path, baseline: str) -> str:
    """Say why no factor could be computed: seeds without common checkpoints, or no common value."""
    without_curve = """
        select variant, task
        from internal.token_scores left join internal.mean_curves using (study_id, variant, task)
        where task <> 'average'
        group by all
        having count(distinct mean_curves.tokens) < 2
        order by all
    """
    for row in query(database, without_curve).itertuples():
        return (
            f"{row.variant} on {row.task}: seeds share fewer than two checkpoints (within 5 %);"
            " interpolate them"
        )
    return (
        f"no variant has a value in common with {baseline}: on no task does the best of one curve"
        " reach the first of the other, so that no factor can be told"
    )


def within_intervals(curves: Curves) -> str:
    """Say which errors the intervals of the curves' factors hold."""
    if curves.points.groupby("variant")["seed"].nunique().min() < 2:
        return "none for a model with one seed, which cannot show what seeds differ by"
    if curves.items is not None:
        return "95 %, over seeds and items (of tasks with scores of items)"
    if {"stderr", "items"} & {*curves.points.dropna(axis=1, how="all")}:
        return (
            "95 %, over seeds and standard errors of the scores, as if no two models shared items:"
            " rather too wide"
        )
    return "95 %, over seeds; nothing is known of the items"


def _of_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Name the run of each row in place of its variant and seed."""
    named = rows.assign(run_id=rows["variant"] + " seed " + rows["seed"].astype(str))
    return named.drop(columns=["variant", "seed"])
