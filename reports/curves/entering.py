"""Enter curves into a results file as a study, and compute its ratios."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.reports.curves.patterns import listed
from dreamer_study.reports.curves.points import Curves
from dreamer_study.reports.curves.scores import kind_of_metric
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.results import connect, ingest, query
from dreamer_study.sql.statistics.bootstrap import without
from dreamer_study.sql.statistics.compute import compute_statistics

STUDY = "curves"
# The metrics of a table with scores and losses, which need no telling.
OWN = ("accuracy", "gold_bits_per_byte", "bits_per_byte")
AFTER_LISTED = 100  # a metric that no results file lists comes after those
EXAMPLE = Path(__file__).with_name("example.csv")


@dataclass(frozen=True)
class Target:
    """A score of a task that was fixed in advance, as in the settings of a study."""

    task: str
    metric: str  # "accuracy" or "loss"
    score: float


def enter_curves(
    database: Path,
    curves: Curves,
    *,
    baseline: str | None,
    targets: Sequence[Target] = (),
    decayed_at_end: bool = False,
    every_pair: bool = True,
    replicates: int = 1000,
) -> None:
    """Enter curves into a new results file as the study `curves`, and compute its ratios.

    The variants keep the order of the rows, and the first one is the baseline unless one is named.
    `targets` are scores fixed in advance; `decayed_at_end` says that learning rates decay towards
    the end of each run. Variants are compared with the baseline, with `every_pair` also with each
    other; the correction for several comparisons is the same. Raises InputError for a baseline or a
    target that the curves do not have, and where no variant has a value in common with the
    baseline.
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
    config = {
        "study": {"evaluation": {"target": [asdict(target) for target in targets]}},
        "decayed_at_end": decayed_at_end,
        "unit": curves.unit,
    }
    if curves.unit != "tokens":
        config["study"]["remark"] = (
            f"All numbers of tokens are {curves.unit}: nothing said how many tokens one has."
        )
    runs = curves.points[["variant", "seed"]].drop_duplicates()
    tables = {
        "studies": pd.DataFrame(
            {"name": [STUDY], "baseline": [baseline], "config": [json.dumps(config)]}
        ),
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
        for metric, kind in curves.kinds.items():
            connection.execute(
                "insert into internal.metrics values (?, ?, ?, ?) on conflict do nothing",
                [metric, kind, AFTER_LISTED, "of curves from elsewhere"],
            )
        ratios = compute_statistics(
            connection,
            STUDY,
            replicates=replicates,
            baselines=None if every_pair else [baseline],
        )
    told = ratios[["ratio", "low", "high", "at_least"]].notna().any(axis=1)
    answers = ratios[(ratios["baseline"] == baseline) & (ratios["variant"] != baseline) & told]
    # Averages without a family are no answer of their own.
    if all(task.startswith(without("")) for task in answers["task"]):
        raise InputError(_why_no_ratio(database, baseline))


def read_targets(texts: Sequence[str], curves: Curves) -> list[Target]:
    """Read `--target`: `3.28` where the curves have one task and metric, else `TASK:METRIC=3.28`.

    Raises InputError for another form, and for a task and metric that the curves do not have.
    """
    measured = _measured(curves)
    described = ", ".join(f"{task}:{metric}" for task, metric in measured)
    metrics = [metric for _, metric in measured]
    targets: dict[tuple[str, str], Target] = {}
    for text in texts:
        named, _, number = text.rpartition("=")
        task, _, metric = named.rpartition(":")
        if not named:
            task, metric = measured[0]
        if not named and len(measured) > 1:
            raise InputError(
                f"--target {text}: of which task? TASK:METRIC={text}, one of {described}"
            )
        if named and not task:
            raise InputError(
                f"--target {text}: the form is TASK:METRIC=SCORE, TASK:METRIC one of {described}"
            )
        score = _score_of(text, number, metric)
        is_average = task == AVERAGE and metric in metrics
        if (task, metric) not in measured and not is_average:
            raise InputError(
                f"--target {text}: no curves of {task}:{metric}; there are {described}"
            )
        if (task, metric) in targets:
            raise InputError(f"--target {text}: a second target of {task}:{metric}")
        targets[task, metric] = Target(task, metric, score)
    return list(targets.values())


def _measured(curves: Curves) -> list[tuple[str, str]]:
    """List the tasks of curves with their metrics, 'accuracy' or 'loss', in order."""
    metrics = curves.points["metric"]
    known = {name: curves.kinds.get(name) or kind_of_metric(name) for name in metrics.unique()}
    kinds = metrics.map(known)
    return sorted(set(zip(curves.points["task"], kinds, strict=True)))


def _score_of(text: str, number: str, metric: str) -> float:
    """Read the score of a target, an accuracy below 1 or a loss."""
    try:
        score = float(number)
    except ValueError:
        raise InputError(f"--target {text}: {number!r} is no number") from None
    highest = 1 if metric == "accuracy" else float("inf")
    if not 0 < score < highest:
        raise InputError(f"--target {text}: an accuracy lies between 0 and 1, a loss above 0")
    return score


def _why_no_ratio(database: Path, baseline: str) -> str:
    """Say why no ratio could be computed: seeds without common checkpoints, or no common value."""
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
        f"no variant can be compared with {baseline}: on no task does one curve rise to scores that"
        " the other has too, or beyond them by more than noise"
    )


def metrics_taken(database: Path) -> list[str]:
    """Say which metric and filter each task's scores and losses are, where a task has several.

    Tasks of one metric are said together.
    """
    chosen = query(
        database,
        "select kind, metric, filter, list(task order by task) as tasks from internal.chosen_metric"
        " where kind <> 'perplexity' group by all order by all",
    )
    return [
        f"{row.kind}: {row.metric}{f' ({row.filter})' if row.filter != 'none' else ''} of"
        f" {listed([*row.tasks], 5)}"
        for row in chosen.itertuples()
        if row.metric not in OWN
    ]


def within_intervals(curves: Curves) -> str:
    """Say which errors the intervals of the curves' factors hold."""
    seeds = curves.points.groupby("variant", sort=False)["seed"].nunique()
    single = [*map(str, seeds[seeds < 2].index)]
    if single:
        verb = "has" if len(single) == 1 else "have"
        return (
            f"none with {listed(single, 3)}, which {verb} one seed, and cannot show what seeds"
            " differ by"
        )
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
