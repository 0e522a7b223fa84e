"""Say what makes the answer of a study weak, in a few words each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.text.limitations import not_evaluated
from dreamer_study.reports.text.names import model_name, task_name
from dreamer_study.reports.text.numbers import counted, some, tokens
from dreamer_study.reports.text.ratios import SIGNIFICANT, finding
from dreamer_study.reports.text.token_stream import mismatch, repetition
from dreamer_study.sql.names import AVERAGE, UNDER_WAY

COSTS = {"flops_billion_per_token": "FLOPs a token", "parameters_billion": "parameters"}
EQUAL = 0.01  # how far costs may differ and be called matched
LEFT = 0.9  # of the baseline's expert size: models with smaller experts are named
MOST_OF_A_KIND = 3  # warnings
FEW_ITEMS = 200  # a benchmark with fewer items has wide errors


def warnings(data: StudyData, leading: pd.DataFrame) -> list[str]:
    """Name in a few words each what makes the sentences of `answers` weak, the weightiest first."""
    texts = []
    if mismatch(data):
        texts.append("The models did not all read the same tokens.")
    texts += _weak_ratios(data, leading)
    if not data.runs["status"].isin(UNDER_WAY).any():
        short = [
            f"{_model(data, row)} at {tokens(row['ends'])} {data.unit.removeprefix('training ')}"
            for row in data.cut_short.to_dict("records")
        ]
        if short:
            texts.append(f"Cut short: {some(short)}, where one seed ends; others continued.")
    return [
        *texts,
        *_rates(data),
        *_unequal_costs(data),
        *_matching_costs(data),
        *gaps(data),
        *_benchmarks(data),
    ]


def _weak_ratios(data: StudyData, leading: pd.DataFrame) -> list[str]:
    """Name the models whose ratio in the answer is weak, kind by kind."""
    texts = []
    for bound, rows in leading[leading["decay_bound"].notna()].groupby("decay_bound"):
        texts.append(
            f"{_models(data, rows)}: the true ratio is {bound} this one, as the score was reached"
            " while the learning rate decays."
        )
    before = leading[leading["before_decay"]]
    if len(before):
        texts.append(
            "Checkpoints taken before the learning rate decays: the ratio after the decay may be"
            f" another ({_models(data, before)})."
        )
    single = _with_one_seed(data, leading[leading["seeds"] < 2])
    if single:
        texts.append(f"One seed: nothing says what another would give for {some(single)}.")
    depends = [
        f"{_model(data, row)} on {row['depends_on'].replace(', ', ' and on ')}"
        for row in leading[leading["depends_on"].notna()].to_dict("records")
        if finding(row) == SIGNIFICANT
    ]
    if depends:
        texts.append(
            "Depends on one benchmark, without which the average would not be significant or"
            f" would say the reverse: {some(depends)}."
        )
    alone = leading[leading["one_task"] & (leading["task"] == AVERAGE)]
    tasks = set(data.ratios["task"]) - {AVERAGE}
    if len(alone) and len(tasks) == 1:
        texts.append(f"One task: {task_name(tasks.pop())} alone.")
    return texts


def _with_one_seed(data: StudyData, pairs: pd.DataFrame) -> list[str]:
    """Name the models of pairs that have one seed: the variant, the baseline, or both."""
    if pairs.empty:
        return []
    runs = data.counted.groupby(["depth", "variant"], dropna=False)["run_id"].nunique()
    single = {model for model, seeds in runs.items() if seeds < 2}
    variants = [
        variant
        for row in pairs.to_dict("records")
        for variant in (row["baseline"], row["variant"])
        if (row["depth"], variant) in single
    ]
    return list(dict.fromkeys(variants))


def rates_tuned(data: StudyData) -> dict[tuple[int, str], bool]:
    """Tell of each model, a depth and a variant, whether its learning rate was chosen by a search.

    Models whose rates are unknown, as of curves from elsewhere, are left out.
    """
    tuned = set(zip(data.tuning["depth"], data.tuning["variant"], strict=True))
    known = data.runs[data.runs["learning_rate"].notna()]
    models = zip(known["depth"], known["variant"], strict=True)
    return {model: model in tuned for model in models}


def _rates(data: StudyData) -> list[str]:
    """Name the models whose learning rates this study did not search.

    Whoever wrote the study may have found them elsewhere, and say so in its remark.
    """
    tuned = rates_tuned(data)
    if not tuned or all(tuned.values()):
        return []
    if not any(tuned.values()):
        return ["Learning rates are as the study file sets them: this study searched none."]
    models = [
        _model(data, {"depth": depth, "variant": variant})
        for (depth, variant), is_tuned in tuned.items()
        if not is_tuned
    ]
    return [f"Learning rate as the study file sets it, searched for others only: {some(models)}."]


def _unequal_costs(data: StudyData) -> list[str]:
    """List models whose FLOPs or parameters differ from the baseline's by over 1 %, and by what.

    Remarks on models follow.
    """
    costs = data.resources.merge(
        data.resources[data.resources["variant"] == data.baseline],
        on="depth",
        suffixes=("", "_of_baseline"),
    )
    unequal = []
    for row in costs.to_dict("records"):
        ratios = [row[name] / row[f"{name}_of_baseline"] - 1 for name in COSTS]
        differences = [
            f"{100 * ratio:+z.0f} % {name}"
            for ratio, name in zip(ratios, COSTS.values(), strict=True)
            if abs(ratio) > EQUAL
        ]
        if differences:
            unequal.append(f"{_model(data, row)} ({', '.join(differences)})")
    texts = []
    if unequal:
        texts.append(f"Unequal costs, against {data.baseline}: {some(unequal)}.")
    # one line for the models of one study that were measured elsewhere
    by_remark: dict[str, list[str]] = {}
    for row in data.models[data.models["remarks"].notna()].to_dict("records"):
        by_remark.setdefault(row["remarks"], []).append(_model(data, row))
    return texts + [f"{some(models)}: {remark}." for remark, models in by_remark.items()]


def _matching_costs(data: StudyData) -> list[str]:
    """Name the models whose experts are more than a tenth smaller than the baseline's.

    They had to be, so that the models cost the same.
    """
    sizes = data.models.merge(
        data.models[data.models["variant"] == data.baseline][["depth", "expert_size"]],
        on="depth",
        suffixes=("", "_other"),
    )
    sizes = sizes.assign(left=sizes["expert_size"] / sizes["expert_size_other"])
    smaller = [
        f"{_model(data, row)} by {100 * (1 - row['left']):.0f} %"
        for row in sizes[sizes["left"] < LEFT].to_dict("records")
    ]
    if not smaller:
        return []
    return [
        f"Matching cost: experts smaller than {data.baseline}’s, {some(smaller)}; larger models"
        " lose less."
    ]


def gaps(data: StudyData) -> list[str]:
    """Name in a few words each what a study lacks.

    That may be runs, which failed or have not ended, evaluations, ratios, and data.
    """
    runs = data.runs[data.runs["status"].notna()]
    ended = runs[~runs["status"].isin(["complete", "screened", *UNDER_WAY])]
    texts = [
        f"{status.capitalize()}: {_models(data, part)} ({counted(len(part), 'run')} of"
        f" {len(runs)})."
        for status, part in ended.groupby("status")
    ]
    broken = data.training_curves[data.training_curves["losses_not_finite"] > 0]
    if len(broken):
        texts.append(
            f"Broken training: the loss of {_models(data, broken)} was not a finite number at some"
            " steps."
        )
    under_way = int(runs["status"].isin(UNDER_WAY).sum())
    if under_way:
        texts.append(f"Not complete: {counted(under_way, 'run')} of {len(runs)}.")
    waiting = len(not_evaluated(data))
    if waiting:
        texts.append(f"Not evaluated: {counted(waiting, 'run')} of {len(runs)}.")
    outdated = data.ratios[data.ratios["outdated"]]
    if len(outdated):
        texts.append(
            f"Not computed: ratios of {_models(data, outdated)}, whose results have changed since."
            " `dreamer intervals STUDY` computes them again."
        )
    texts += _tasks(data)
    repeated = repetition(data)
    if repeated:
        texts.append(repeated)
    return texts


def _tasks(data: StudyData) -> list[str]:
    """Name the benchmarks on which a model was not evaluated that was evaluated on others."""
    texts = []
    for _, rows in data.efficiency.groupby(["depth", "variant"]):
        absent = rows[rows["own_best"].isna()]
        tasks = [task_name(task) for task in absent["task"] if task != AVERAGE]
        if tasks and len(absent) < len(rows):
            text = f"Not evaluated: {_models(data, absent)} on {some(tasks)}"
            if AVERAGE in set(absent["task"]):
                text += ", so without an average"
            texts.append(f"{text}.")
    return _first(texts, "Not evaluated: {further}, each on some tasks.", "further model")


def _models(data: StudyData, rows: pd.DataFrame) -> str:
    """Name the models that rows are of, each once."""
    return some(list(dict.fromkeys(_model(data, row) for row in rows.to_dict("records"))))


def _model(data: StudyData, row: Mapping[str, Any]) -> str:
    return model_name(row, several_depths=len(data.depths) > 1)


def _benchmarks(data: StudyData) -> list[str]:
    """Name benchmarks near chance, a limit on their items, and few items."""
    texts = []
    near = data.efficiency[
        (data.efficiency["variant"] == data.baseline) & data.efficiency["near_chance"].eq(True)
    ]
    if len(near):
        tasks = sorted({task_name(task) for task in near["task"]})
        texts.append(f"Near chance: {data.baseline} on {some(tasks)}.")
    texts += _near_chance(data, set(near["task"]))
    limit = data.config("study", "evaluation").get("limit")
    if isinstance(limit, int):
        texts.append(f"Limited evaluation: a sample of {counted(limit, 'item')} of each task.")
    asked = data.accuracy[data.accuracy["task"] != AVERAGE].groupby("task")["items"].min().dropna()
    few = [f"{task_name(task)} ({items:.0f})" for task, items in asked.items() if items < FEW_ITEMS]
    if few:
        texts.append(f"Few items, so wide errors: {some(few)}.")
    return texts


def _near_chance(data: StudyData, of_baseline: set[str]) -> list[str]:
    """Name the variants near chance, on benchmarks where the baseline is above chance."""
    ratios = data.ratios
    # The average of one task is that task.
    repeats = ratios["one_task"].astype(bool) & (ratios["task"] == AVERAGE)
    near = ratios[ratios["near_chance"].eq(True) & ~ratios["task"].isin(of_baseline) & ~repeats]
    texts = [
        f"Near chance: {_models(data, rows)} on {task_name(task)}."
        for task, rows in near.groupby("task")
    ]
    return _first(texts, "Near chance: models on {further}.", "further task")


def _first(texts: list[str], rest: str, noun: str) -> list[str]:
    """Keep the first of many texts of a kind, and count the others in one."""
    further = len(texts) - MOST_OF_A_KIND
    if further <= 1:
        return texts
    return [*texts[:MOST_OF_A_KIND], rest.format(further=counted(further, noun))]
