"""Say what limits the numbers of a study, from its own rows: nothing that is true of every study."""

from __future__ import annotations

import pandas as pd

from reports.data import StudyData, without_baseline
from reports.text.mean_factors import headline
from reports.text.names import depth_name, measure_name, model_name, stage_name, task_name
from reports.text.numbers import as_many, counted, listed, number, percent, tokens
from reports.text.token_stream import mismatch
from sql.names import AVERAGE
from sql.statistics.errors import SIGNIFICANCE
from sql.statistics.resolution import Noise, smallest_factor
from sql.statistics.sequential import NOMINAL

FEW_ITEMS = 200  # a benchmark with fewer items has wide errors


def limitations(data: StudyData) -> list[str]:
    """Return one text for each limitation that applies, the weightiest first."""
    found = (data_doubts, rate_doubts, _intervals, _seeds, _checkpoints, _benchmarks, _gaps)
    return [text for text in (mismatch(data), *(text for part in found for text in part(data))) if text]


def data_doubts(data: StudyData) -> list[str]:
    """Return a text for each source of which a stage dropped more than half for one reason, and on unmarked traces."""
    rows = data.curation.assign(came=data.curation.groupby(["source", "stage"])["documents"].transform("sum"))
    most = rows[(rows["reason"] != "kept") & (2 * rows["documents"] > rows["came"])]
    texts = [
        f"{stage_name(row.stage)} dropped {percent(row.documents / row.came)} of what came from {row.source} for one "
        f"reason: {row.reason.replace('_', ' ')} ({number(row.documents)} of {number(row.came)} documents)."
        for row in most.itertuples()
    ]
    unmarked = [f"{number(row.unmarked)} of {row.source}" for row in data.unmarked.itertuples()]
    if unmarked:
        texts.append(
            "Responses without marks of a trace stay whole, so the models may learn the reasoning in them too: "
            f"{listed(unmarked)}."
        )
    return texts


def rate_doubts(data: StudyData) -> list[str]:
    """Return a text on models whose chosen learning rate is the lowest or highest that the search has tried."""
    tried = data.tuning["learning_rate"]
    at_edge = data.tuning[data.tuning["chosen"] & tried.isin([tried.min(), tried.max()])]
    rows = at_edge.drop_duplicates(["depth", "variant"]).to_dict("records")
    named = [f"{model_name(row)} ({row['learning_rate']:g})" for row in rows]
    text = "Learning rates were chosen at the edge of those tried, so that better ones may lie beyond: "
    return [f"{text}{listed(named)}."] if named else []


def _intervals(data: StudyData) -> list[str]:
    """Say what the intervals of the mean factors hold, and what the study resolves."""
    means = without_baseline(data.mean_factors[data.mean_factors["factor"].notna()])
    if means["low"].isna().all():
        return []
    items = "; scores of items, and so their errors, are unknown"
    if means["item_error"].notna().any():
        items = ", and what other items of the same benchmarks would have given (bootstrap, the same for all models)"
        if data.scored_items.empty:
            items = ", and the standard errors of the scores, as if no two models shared items (rather too wide)"
    text = (
        "Intervals of mean factors are 95% t-intervals. They hold what the seeds differ by (each seed left out in "
        f"turn){items}. Factors by the paper’s rule have bounds and no intervals."
    )
    return [text, *_resolution(data, headline(means))]


def _resolution(data: StudyData, chosen: pd.DataFrame) -> list[str]:
    """Say which mean factor the study tells from 1, and what one more seed would gain, for each measure in use."""
    texts = []
    measures = chosen[["task", "metric"]].drop_duplicates()
    looks = data.config("study", "training").get("seeds_until")  # the intervals of all looks hold together
    for row in data.noise.merge(measures, on=["task", "metric"]).to_dict("records"):
        noise = Noise(row["seed_deviation"], row["item_error"], "this study")
        counts, significance = (int(row["seeds"]), int(row["seeds"]) + 1), NOMINAL if looks else SIGNIFICANCE
        told, more = (as_many(1 / smallest_factor(noise, count, significance)) for count in counts)
        texts.append(
            f"Minimum detectable effect by {measure_name(row)}, with {counted(int(row['seeds']), 'seed')} of each "
            f"model: {told} in four of five cases. With one more seed: {more}."
        )
    return texts


def _seeds(data: StudyData) -> list[str]:
    """Say how many runs each curve is the mean of."""
    if data.counted.empty:
        return []
    seeds = data.counted.groupby(["depth", "variant"])["run_id"].nunique()
    screened = int((data.runs["status"] == "screened").sum())
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


def _checkpoints(data: StudyData) -> list[str]:
    """Say how the spacing of checkpoints limits factors, and where the baseline was best at its first or last one."""
    counts = data.best["checkpoints"].dropna()
    if counts.max() == 1:
        return ["There is one checkpoint only, so no factor can be told from it: all are bounds."]
    many = " to ".join(dict.fromkeys(f"{count:.0f}" for count in (counts.min(), counts.max())))
    texts = [
        f"Factors of the paper’s rule are read off at {many} checkpoints: they can only take the values that these "
        "allow, the first by luck. Mean factors assume straight lines in log tokens between them."
    ] * bool(len(counts))
    baseline = data.efficiency[data.efficiency["variant"] == data.baseline]
    early = baseline[baseline["bound"] == "at least"]
    if len(early):
        texts.append(
            f"{data.baseline} was best at its very first checkpoint on {_places(early)}. It may have been as good "
            "before, so the factors there may be too high."
        )
    late = baseline[baseline["baseline_tokens"] >= baseline["tokens_trained"]]
    if len(late):
        where = sorted({_task(task) for task in late["task"]}, key=str.lower)
        texts.append(
            f"{data.baseline} was best at its last checkpoint on {listed(where)} and may not have finished learning: "
            "with more tokens its best, and so the factor, would be another."
        )
    return texts


def _benchmarks(data: StudyData) -> list[str]:
    """Name what makes benchmarks weak: nearness to chance, a limit on items, few items."""
    texts, limit = [], data.config("study", "evaluation").get("limit")
    near = data.efficiency[(data.efficiency["variant"] == data.baseline) & data.efficiency["near_chance"]]
    if len(near):
        texts.append(f"{data.baseline} is within two standard errors of chance on {_places(near)}: factors say little.")
    if isinstance(limit, int):
        texts.append(
            f"Evaluation was limited to the first {limit:,} items of each task of the harness: accuracies are not "
            "those of the whole benchmarks."
        )
    return texts


def few_items(data: StudyData) -> str:
    """Name the benchmarks with few items; empty where there are none."""
    asked = data.accuracy[data.accuracy["task"] != AVERAGE].groupby("task")["items"].min().dropna()
    few = [f"{task_name(task)} ({items:.0f})" for task, items in asked.items() if items < FEW_ITEMS]
    return f"Few items, so wide errors: {listed(few)}." if few else ""


def _gaps(data: StudyData) -> list[str]:
    texts, rows = [], data.efficiency
    ended = data.runs[~data.runs["status"].isin(["complete", "screened"]) & data.runs["status"].notna()]
    if len(ended):
        reasons = dict(data.failures[["run_id", "failure"]].itertuples(index=False))
        named = [
            f"{row.run_id} ({': '.join(filter(None, (row.status, reasons.get(row.run_id))))})"
            for row in ended.itertuples()
        ]
        texts.append(f"Not complete: {listed(named)}.")
    if waiting := not_evaluated(data):
        texts.append(f"Trained but not evaluated, so in no curve: {listed(waiting)}.")
    for (depth, variant), part in rows.groupby(["depth", "variant"]):
        absent = part[part["own_best"].isna()]["task"]
        if len(absent):
            where = "anything" if len(absent) == len(part) else listed([_task(task) for task in absent])
            texts.append(f"{variant} at {depth_name(depth).lower()} was not evaluated on {where}.")
    evaluated = set(data.accuracy[data.accuracy["variant"] == data.baseline]["depth"])
    texts += [
        f"{depth_name(depth)} has no evaluated {data.baseline}, so there are no factors for it."
        for depth in data.depths
        if len(data.accuracy) and depth not in evaluated
    ]
    lengths = data.best[data.best["task"] == AVERAGE].groupby("depth")["tokens_trained"].agg(["min", "max"])
    texts += [
        f"{depth_name(depth)}: the models were evaluated up to different numbers of tokens, {tokens(low)} to "
        f"{tokens(high)}."
        for depth, low, high in lengths.itertuples()
        if low < 0.95 * high
    ]
    return texts


def not_evaluated(data: StudyData) -> list[str]:
    """Return the complete runs without any accuracy, where other runs have accuracies."""
    complete = data.runs[data.runs["status"] == "complete"]["run_id"]
    return sorted(set(complete) - set(data.accuracy["run_id"])) if len(data.accuracy) else []


def _places(rows: pd.DataFrame) -> str:
    return listed([f"{_task(row.task)} at {depth_name(row.depth).lower()}" for row in rows.itertuples()])


def _task(task: str) -> str:
    return "the average" if task == AVERAGE else task_name(task)
