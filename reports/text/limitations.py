"""Say what limits the numbers of a study, from its own rows.

Nothing is said that is true of every study, or that the page has said before.
"""

from __future__ import annotations

import pandas as pd

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.text.names import depth_name, model_name, stage_name, task_name
from dreamer_study.reports.text.numbers import counted, listed, number, percent, some, tokens
from dreamer_study.sql.names import AVERAGE

MODEL = ["depth", "variant"]
COMPUTED_FROM = ", from "  # in the device of a run (model/training/computers.py)


def limitations(data: StudyData) -> list[str]:
    """Return one text for each limitation that applies, the weightiest first."""
    return [
        *rate_doubts(data),
        *undecided_rates(data),
        *setting_doubts(data),
        *_intervals(data),
        *_checkpoints(data),
        *_gaps(data),
        *continued_runs(data),
    ]


def data_doubts(data: StudyData) -> list[str]:
    """Return a text for each source of which a stage dropped more than half for one reason.

    A last one is on responses without marks of a trace.
    """
    rows = data.curation.assign(
        came=data.curation.groupby(["source", "stage"])["documents"].transform("sum")
    )
    most = rows[(rows["reason"] != "kept") & (2 * rows["documents"] > rows["came"])]
    texts = [
        f"{stage_name(row.stage)} dropped {percent(row.documents / row.came)} of what came from"
        f" {row.source} for one reason: {row.reason.replace('_', ' ')} ({number(row.documents)} of"
        f" {number(row.came)} documents)."
        for row in most.itertuples()
    ]
    unmarked = [f"{number(row.unmarked)} of {row.source}" for row in data.unmarked.itertuples()]
    if unmarked:
        texts.append(
            "Responses without marks of a trace stay whole, so the models may learn the reasoning"
            f" in them too: {listed(unmarked)}."
        )
    return texts


def rate_doubts(data: StudyData) -> list[str]:
    """Return a text on models whose learning rate is the lowest or highest of those tried."""
    return _at_edges(data.tuning, "learning_rate", "Learning rates")


def setting_doubts(data: StudyData) -> list[str]:
    """Return texts on weight decays and decays that are the lowest or highest of those tried."""
    rows = data.tuning_settings
    return [
        *_at_edges(rows, "weight_decay", "Weight decays"),
        *_at_edges(rows, "decay", "Shares of the decay"),
    ]


def _at_edges(rows: pd.DataFrame, setting: str, words: str) -> list[str]:
    """Return a text on models whose chosen value of a setting is at an edge of those tried."""
    # by model: where the study file gives a model its own value, no other value was tried
    tried = rows.groupby(MODEL)[setting].agg(["min", "max"]).reset_index()
    chosen = rows[rows["chosen"]].merge(tried, on=MODEL)
    is_at_edge = (chosen[setting] == chosen["min"]) | (chosen[setting] == chosen["max"])
    at_edge = chosen[is_at_edge & (chosen["min"] < chosen["max"])].drop_duplicates(MODEL)
    several_depths = rows["depth"].nunique() > 1
    models = [
        f"{model_name(row, several_depths)} ({row[setting]:g})"
        for row in at_edge.to_dict("records")
    ]
    if not models:
        return []
    return [
        f"{words} were chosen at the edge of those tried, so that better ones may lie beyond:"
        f" {some(models)}."
    ]


def undecided_rates(data: StudyData) -> list[str]:
    """Return a text on models on whose learning rate the seeds of the search do not agree.

    The search takes the rate with the lowest mean loss, of those at which no seed failed. Where the
    lowest losses of two seeds are at different rates, other seeds may well have chosen another one.
    """
    rows = data.tuning
    of_rate = [rows[name] for name in (*MODEL, "learning_rate")]
    has_all_seeds = rows["loss"].notna().groupby(of_rate).transform("all").astype(bool)
    losses = rows[has_all_seeds]
    best_of_seeds = losses.loc[losses.groupby([*MODEL, "seed"])["loss"].idxmin()]
    rates = best_of_seeds.groupby(MODEL)["learning_rate"].nunique()
    several_depths = rows["depth"].nunique() > 1
    models = [
        model_name(row, several_depths)
        for row in rates[rates > 1].index.to_frame(index=False).to_dict("records")
    ]
    if not models:
        return []
    return [
        "The seeds of the search do not agree on a learning rate, so that other seeds may have"
        f" chosen another one: {some(models)}."
    ]


def _intervals(data: StudyData) -> list[str]:
    """Say what the intervals of the ratios hold."""
    if data.noise.empty:
        return []
    if (data.noise["item_error"] == 0).all():
        items = "; scores of items, and so their errors, are unknown"
    elif data.scored_items.empty:
        items = (
            ", and the standard errors of the scores, as if no two models shared items (rather"
            " too wide)"
        )
    else:
        items = (
            ", and what other items of the same benchmarks would have given (bootstrap, the same"
            " for all models)"
        )
    return [
        "Intervals of ratios are 95 % t-intervals. They hold what the seeds differ by (each seed"
        f" left out in turn){items}. Ratios by the paper’s rule have bounds and no intervals."
    ]


def _checkpoints(data: StudyData) -> list[str]:
    """Say where a study has one checkpoint, and where the baseline was best at its last one."""
    if data.best["checkpoints"].max() == 1:
        return ["There is one checkpoint only, so that all ratios are bounds."]
    baseline = data.efficiency[data.efficiency["variant"] == data.baseline]
    late = baseline[baseline["baseline_tokens"] >= baseline["tokens_trained"]]
    tasks = [
        "the average" if task == AVERAGE else task_name(task) for task in late["task"].unique()
    ]
    if not tasks:
        return []
    return [
        f"{data.baseline} was best at its last checkpoint on {some(sorted(tasks, key=str.lower))}"
        " and may not have finished learning: with more tokens its best, and so the ratio by"
        " the paper’s rule, would be another."
    ]


def _gaps(data: StudyData) -> list[str]:
    """Say which runs are in no curve, and which depths lack ratios or have unequal lengths."""
    texts = []
    screened = int((data.runs["status"] == "screened").sum())
    if screened:
        texts.append(
            f"Seeds were chosen by training loss: {counted(screened, 'run')} ended early, as"
            " another seed of the model had the lower one. Another seed reads the data in another"
            " order."
        )
    incomplete = data.runs[
        ~data.runs["status"].isin(["complete", "screened"]) & data.runs["status"].notna()
    ]
    if len(incomplete):
        failures = dict(data.failures[["run_id", "failure"]].itertuples(index=False))
        runs = []
        for row in incomplete.itertuples():
            reasons = filter(None, (row.status, failures.get(row.run_id)))
            runs.append(f"{row.run_id} ({': '.join(reasons)})")
        texts.append(f"Not complete: {some(runs)}.")
    waiting = not_evaluated(data)
    if waiting:
        texts.append(f"Trained but not evaluated, so in no curve: {some(waiting)}.")
    evaluated = set(data.accuracy[data.accuracy["variant"] == data.baseline]["depth"])
    texts += [
        f"{depth_name(depth)} has no evaluated {data.baseline}, so there are no ratios for it."
        for depth in data.depths
        if len(data.accuracy) and depth not in evaluated
    ]
    lengths = (
        data.best[data.best["task"] == AVERAGE]
        .groupby("depth")["tokens_trained"]
        .agg(["min", "max"])
    )
    texts += [
        f"{depth_name(depth)}: the models were evaluated up to different numbers of tokens,"
        f" {tokens(low)} to {tokens(high)}."
        for depth, low, high in lengths.itertuples()
        if low < 0.95 * high
    ]
    return texts


def continued_runs(data: StudyData) -> list[str]:
    """Return a text on runs that another device, or another C engine, has continued."""
    runs = data.runs.dropna(subset="device")
    continued = [
        f"{row.run_id} ({row.device})" for row in runs.itertuples() if COMPUTED_FROM in row.device
    ]
    if not continued:
        return []
    return [
        "Continued by another computer, so that a repetition gives the same numbers but for"
        f" rounding: {some(continued)}."
    ]


def not_evaluated(data: StudyData) -> list[str]:
    """Return the complete runs without any accuracy, where other runs have accuracies."""
    if data.accuracy.empty:
        return []
    complete = data.runs[data.runs["status"] == "complete"]["run_id"]
    return sorted(set(complete) - set(data.accuracy["run_id"]))
