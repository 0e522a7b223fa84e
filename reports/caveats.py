"""What a reader must know before believing the numbers: said from the rows of this study, nothing in general."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.rows import Rows
from reports.stream import mismatch
from reports.theme import BASELINE
from reports.words import (
    AVERAGE,
    counted,
    depth_name,
    listed,
    task_name,
    tokens,
)


def caveats(rows: Rows) -> list[str]:
    """One text for each doubt that applies, the weightiest first."""
    return [
        *_integrity(rows),
        *_intervals(rows),
        *_seeds(rows),
        *_checkpoints(rows),
        *_bounds(rows),
        *_plateaus(rows),
        *_fits(rows),
        *_chance(rows),
        *_items(rows),
        *_gaps(rows),
    ]


def _integrity(rows: Rows) -> list[str]:
    """What must never be: runs that read other data, rows that contradict each other."""
    text = [mismatch(rows)] if len(rows.mismatches) else []
    for frame, what in (
        (rows.going_back, "steps at which their tokens go back"),
        (rows.entered_twice, "items, attention scores or expert counts that were entered twice"),
    ):
        if len(frame):
            runs = sorted(set(frame["run_id"]))
            text.append(f"The results of {listed(runs)} hold {what}: they cannot be relied on.")
    return text


def _intervals(rows: Rows) -> list[str]:
    compared = rows.efficiency[(rows.efficiency["variant"] != BASELINE) & rows.efficiency["factor"].notna()]
    if compared.empty:
        return []
    without = compared["low"].isna().sum()
    replicates = rows.intervals["replicates"].dropna()
    drawn = f" from {int(replicates.max()):,} replicates" if len(replicates) else ""
    text = []
    if without < len(compared):
        seeds = (
            "So are the seeds where there are several; two or three of them show less than their true spread."
            if (rows.best["seeds"] > 1).any()
            else "What another initialisation or order of the data would have given is not in them."
        )
        text.append(
            f"Intervals are 95% bootstrap intervals{drawn}: the items of each benchmark are drawn anew, the same for "
            f"all models, and goal and crossing are found again; where a curve has eight checkpoints or more, noise as "
            f"large as its scatter around the fitted curve is drawn with them. {seeds}"
        )
    if without:
        text.append(f"{without:,} of {len(compared):,} factors have no interval.")
    return text


def _seeds(rows: Rows) -> list[str]:
    trained = rows.runs[rows.runs["status"] != "screened"]
    if trained.empty:
        return []
    seeds = trained.groupby(["depth", "variant"])["run_id"].nunique()
    screened = int((rows.runs["status"] == "screened").sum())
    if seeds.max() == 1:
        text = "Every model is a single run, so differences between seeds are not part of any number here."
    elif seeds.min() == seeds.max():
        text = f"Every model is the mean of {counted(int(seeds.max()), 'seed')}."
    else:
        few = [f"{variant} at {depth_name(depth).lower()} ({count})" for (depth, variant), count in seeds.items()]
        text = f"Models have different numbers of seeds: {listed(few)}."
    if screened:
        text += (
            f" Seeds were chosen by training loss: {counted(screened, 'run')} ended early because another seed of the "
            "same model had the lower one."
        )
    return [text]


def _checkpoints(rows: Rows) -> list[str]:
    counts = rows.best["checkpoints"].dropna() if len(rows.best) else pd.Series(dtype=float)
    if counts.empty:
        return []
    low, high = int(counts.min()), int(counts.max())
    if high == 1:
        return ["There is one checkpoint only, so no factor can be told from it: all are bounds."]
    many = f"{low}" if low == high else f"{low} to {high}"
    return [
        f"Factors are read off at {many} checkpoints: they can only take the values that these allow. The first "
        "checkpoint that reaches a goal can do so by luck; the intervals contain that, the interpolated factors "
        "assume a straight line in log tokens between checkpoints."
    ]


def _bounds(rows: Rows) -> list[str]:
    if len(rows.best) and rows.best["checkpoints"].max() == 1:
        return []  # said already
    text = []
    own = rows.efficiency[(rows.efficiency["variant"] == BASELINE) & (rows.efficiency["bound"] == "at least")]
    if len(own):
        where = [f"{_task(row.task)} at {depth_name(row.depth).lower()}" for row in own.itertuples()]
        text.append(
            f"{BASELINE} was best at its very first checkpoint on {listed(where)}. It may have been as good before, "
            "so the factors there may be too high."
        )
    late = rows.efficiency[
        (rows.efficiency["variant"] == BASELINE)
        & (rows.efficiency["baseline_tokens"] >= rows.efficiency["tokens_trained"])
    ]
    if len(late):
        where = sorted({_task(task) for task in late["task"]}, key=str.lower)
        text.append(
            f"{BASELINE} was best at its last checkpoint on {listed(where)} and may not have finished learning: with "
            "more tokens its best, and so the factor, would be another."
        )
    return text


def _plateaus(rows: Rows) -> list[str]:
    """Where items drawn anew do not say which checkpoint is the baseline's best."""
    first = rows.intervals[rows.intervals["rule"] == "first"]
    wide = first[(first["task"] == AVERAGE) & (first["goal_first"] < first["goal_last"])]
    where = [
        f"checkpoint from {tokens(row.goal_first)} to {tokens(row.goal_last)} tokens at {depth_name(row.depth).lower()}"
        for row in wide.drop_duplicates("depth").itertuples()
    ]
    if not where:
        return []
    return [
        f"Which checkpoint is {BASELINE}’s best on the average is not certain: it may be any {listed(where)}. The "
        "intervals span all of these; the factor itself is read off one."
    ]


def _fits(rows: Rows) -> list[str]:
    fitted = rows.fits[rows.fits["status"] == "fitted"]
    if fitted.empty:
        return []
    text = (
        "The fitted factors have another goal (95% of the rise on the curve, not the best checkpoint) and hold as far "
        "as the curves fit; nothing is extrapolated beyond the checkpoints."
    )
    misfit = fitted["misfit"].dropna()
    if len(misfit) and misfit.max() > 2:
        text += (
            " Squared distances of the checkpoints from their curves are up to "
            f"{misfit.max():.0f} times what the benchmark items explain: accuracy goes up and down in training. "
            "Intervals of curves with fewer than eight checkpoints do not contain that, those of fitted factors do."
        )
    return [text]


def _chance(rows: Rows) -> list[str]:
    near = rows.efficiency[(rows.efficiency["variant"] == BASELINE) & rows.efficiency["near_chance"]]
    if near.empty:
        return []
    where = [f"{_task(row.task)} at {depth_name(row.depth).lower()}" for row in near.itertuples()]
    return [f"{BASELINE}’s best is within two standard errors of chance on {listed(where)}: those factors say little."]


def _items(rows: Rows) -> list[str]:
    text = []
    limit = _setting(rows, "evaluation", "limit")
    if isinstance(limit, int):
        text.append(
            f"Evaluation was limited to the first {limit:,} items of each task of the harness: accuracies are not "
            "those of the whole benchmarks."
        )
    asked = rows.accuracy[rows.accuracy["task"] != AVERAGE].groupby("task")["items"].min().dropna()
    few = [f"{_task(task)} ({int(count):,})" for task, count in asked.items() if count < 200]
    if few:
        text.append(f"Few items, so wide errors: {listed(few)}.")
    return text


def _gaps(rows: Rows) -> list[str]:
    text = []
    ended = rows.runs[~rows.runs["status"].isin(["complete", "screened"]) & rows.runs["status"].notna()]
    if len(ended):
        text.append(f"Not complete: {listed([f'{row.run_id} ({row.status})' for row in ended.itertuples()])}.")
    compared = rows.efficiency
    absent = compared[compared["own_best"].isna()]
    for (depth, variant), part in absent.groupby(["depth", "variant"]):
        everything = len(part) == len(compared[(compared["depth"] == depth) & (compared["variant"] == variant)])
        where = "anything" if everything else listed([_task(task) for task in part["task"]])
        text.append(f"{variant} at {depth_name(depth).lower()} was not evaluated on {where}.")
    for depth in rows.depths:
        if len(rows.accuracy) and BASELINE not in set(rows.accuracy[rows.accuracy["depth"] == depth]["variant"]):
            text.append(f"{depth_name(depth)} has no evaluated {BASELINE}, so there are no factors for it.")
    lengths = rows.best[rows.best["task"] == AVERAGE].groupby("depth")["tokens_trained"].agg(["min", "max"])
    for depth, low, high in lengths.itertuples():
        if low < 0.95 * high:
            text.append(
                f"{depth_name(depth)}: the models were evaluated up to different numbers of tokens, {tokens(low)} to "
                f"{tokens(high)}."
            )
    if rows.absent:
        text.append(
            f"The results file lacks what these parts of the report are made from: {listed(list(rows.absent))}."
        )
    return text


def _setting(rows: Rows, section: str, name: str) -> Any:
    """A setting of the study's configuration, None where there is none or the configuration has another form."""
    value: Any = rows.config
    for key in ("study", section, name):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _task(task: str) -> str:
    return "the average" if task == AVERAGE else task_name(task)
