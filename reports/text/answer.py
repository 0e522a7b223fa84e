"""Say the answer of a study: one sentence for each depth, and beside the sentences what makes them
weak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import StudyData, baseline_of, without_baseline
from dreamer_study.reports.text.crossings import crossing
from dreamer_study.reports.text.limitations import not_evaluated
from dreamer_study.reports.text.mean_factors import never_reached
from dreamer_study.reports.text.names import depth_name, measure_name, task_name
from dreamer_study.reports.text.numbers import as_many, counted, holds_one, interval, listed, tokens
from dreamer_study.reports.text.token_stream import mismatch, repetition
from dreamer_study.sql.names import AVERAGE, UNDER_WAY

NAMED = "95% interval "  # before the first interval of a text
COSTS = {"flops_billion_per_token": "FLOPs a token", "parameters_billion": "parameters"}
LEFT = 0.9  # of the baseline's expert size: models with less are named
FEW_ITEMS = 200  # a benchmark with fewer items has wide errors
EQUAL = 0.01  # how far costs may differ and be called matched


def answers(means: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    """Return a text for each depth, the models in the order of the rows.

    `means` has the rows of `headline`, `others` those of `StudyData.efficiency` of models without a
    mean factor. What the study decides comes first. A model whose interval holds 1, or whose range
    is mere noise, is in a sentence that begins with what the study cannot tell. Example: "At depth
    4, for equal average accuracy, DR needed 0.40 times as many training tokens as LA (95% interval
    0.29 to 0.53). The study cannot tell whether DR+DA needed fewer or more:
    0.91 times as many (0.67 to 1.25)."
    """
    found = []
    for depth in sorted({*means["depth"], *others["depth"]}):
        rows = means[means["depth"] == depth]
        shared = rows[~rows["bounded"]]
        sentences = [
            _sentence(depth, part) for _, part in shared.groupby(["metric", "task"], sort=False)
        ]
        for row in rows[rows["bounded"]].to_dict("records"):
            place = f"At {depth_name(depth).lower()}, " * (depth >= 0 and not sentences)
            unknown = f"whether {row['variant']} needed fewer or more is open: " * _is_open(row)
            text = f"{place}{unknown}{never_reached(row)}."
            sentences.append(text[0].upper() + text[1:] if unknown and not place else text)
        sentences += [crossing(row) for row in others[others["depth"] == depth].to_dict("records")]
        found.append(" ".join(sentences))
    return found


def _sentence(depth: int, rows: pd.DataFrame) -> str:
    decided = [row for row in rows.to_dict("records") if not _is_open(row)]
    undecided = [row for row in rows.to_dict("records") if _is_open(row)]
    goal = f"for equal {measure_name(rows.iloc[0])}"
    place = depth_name(depth).lower() if depth >= 0 else ""
    if not decided:
        where = f" at {place}" if place else ""
        return _cannot_tell(undecided, f" training tokens than {baseline_of(rows)}{where} {goal}")
    first, *further = decided
    compared = f"training tokens as {first['baseline']}"
    clauses = [
        f"{first['variant']} needed {as_many(first['factor'])} {compared}{_span(first, NAMED)}"
    ]
    clauses += [f"{row['variant']} {as_many(row['factor'])}{_span(row)}" for row in further]
    start = f"At {place}, {goal}" if place else f"For{goal.removeprefix('for')}"
    return " ".join(
        [f"{start}, {listed(clauses)}.", *([_cannot_tell(undecided)] if undecided else [])]
    )


def _is_open(row: Mapping[str, Any]) -> bool:
    """Tell whether nothing is decided: 1 in the interval, curves of noise alone, or an upper bound
    above 1."""
    return (
        holds_one(row) or bool(row["within_noise"]) or bool(row["bounded"] and row["factor"] >= 1)
    )


def _cannot_tell(rows: list[dict[str, Any]], compared: str = "") -> str:
    """Say that the study decides nothing for these models. `compared` is left out where a sentence
    before said it."""
    names = " or ".join(row["variant"] for row in rows)
    spans = [_span(rows[0], NAMED if compared else ""), *map(_span, rows[1:])]
    said = [f"{row['variant']} " * (len(rows) > 1) + as_many(row["factor"]) for row in rows]
    clauses = [text + span for text, span in zip(said, spans, strict=True)]
    return (
        f"The study cannot tell whether {names} needed fewer or more{compared}: {listed(clauses)}."
    )


def _span(row: Mapping[str, Any], name: str = "") -> str:
    span = interval(row)
    return f" ({name}{span})" if span else " (no interval)"


def warnings(data: StudyData, means: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    """Name in a few words each what makes the sentences of `answers` weak, the weightiest first."""
    texts = ["The models did not all read the same tokens."] * bool(mismatch(data))
    undecided = [_model(row) for row in means.to_dict("records") if holds_one(row)]
    if undecided:
        texts.append(
            f"Not decided: {listed(undecided)}. The interval holds 1, which is as many tokens as"
            f" {data.baseline}."
        )
    if (means["seeds"] < 2).any():
        single = list(dict.fromkeys(means[means["seeds"] < 2]["variant"]))
        texts.append(f"One seed: nothing says what another would give for {listed(single)}.")
    noisy = [_model(row) for row in means[means["within_noise"]].to_dict("records")]
    if noisy:
        texts.append(
            f"Noise: the range that {listed(noisy)} and {data.baseline} both reached is hardly"
            " wider than noise."
        )
    short = [
        f"{_model(row)} at {tokens(row['ends'])} tokens"
        for row in data.cut_short.to_dict("records")
    ]
    if short and not data.runs["status"].isin(UNDER_WAY).any():
        texts.append(f"Cut short: {listed(short)}, where one seed ends; others went on.")
    if (others["bound"] == "at most").any():
        missed = [_model(row) for row in others[others["bound"] == "at most"].to_dict("records")]
        texts.append(f"Not reached: {listed(missed)} had not {data.baseline}’s best at the end.")
    return [*texts, *_unequal_costs(data), *_taxes(data), *gaps(data), *_benchmarks(data)]


def _unequal_costs(data: StudyData) -> list[str]:
    """List models whose FLOPs or parameters differ from the baseline's by over 1 %, and remarks on
    models."""
    costs = data.resources.merge(
        data.resources[data.resources["variant"] == data.baseline],
        on="depth",
        suffixes=("", "_of_baseline"),
    )
    unequal = []
    for row in costs.to_dict("records"):
        ratios = [row[name] / row[f"{name}_of_baseline"] - 1 for name in COSTS]
        if any(abs(ratio) > EQUAL for ratio in ratios):
            known = zip(ratios, COSTS.values(), strict=True)
            said = [f"{ratio:+z.0%} {name}" for ratio, name in known if pd.notna(ratio)]
            unequal.append(f"{_model(row)} ({', '.join(said)})")
    texts = [f"Unequal costs, against {data.baseline}: {listed(unequal)}."] * bool(unequal)
    remarks = data.models[data.models["remarks"].notna()].to_dict("records")
    return texts + [f"{_model(row)}: {row['remarks']}." for row in remarks]


def _taxes(data: StudyData) -> list[str]:
    """Name the models whose experts had to be more than a tenth smaller than the baseline's to cost
    the same."""
    sizes = data.models.merge(
        data.models[data.models["variant"] == data.baseline][["depth", "expert_size"]],
        on="depth",
        suffixes=("", "_other"),
    )
    sizes = sizes.assign(left=sizes["expert_size"] / sizes["expert_size_other"])
    taxed = [
        f"{_model(row)} by {1 - row['left']:.0%}"
        for row in sizes[sizes["left"] < LEFT].to_dict("records")
    ]
    smaller = (
        f"Matching tax: experts smaller than {data.baseline}’s, {listed(taxed)}; larger models lose"
        " less."
    )
    return [smaller] * bool(taxed)


def gaps(data: StudyData) -> list[str]:
    """Name in a few words each what a study lacks: runs that failed or go on, evaluations, factors,
    and data."""
    runs = data.runs[data.runs["status"].notna()]
    ended = runs[~runs["status"].isin(["complete", "screened", *UNDER_WAY])]
    texts = [
        f"{status.capitalize()}: {_models(part)} ({counted(len(part), 'run')} of {len(runs)})."
        for status, part in ended.groupby("status")
    ]
    broken = data.training_curves[data.training_curves["losses_not_finite"] > 0]
    if len(broken):
        texts.append(
            f"Broken training: the loss of {_models(broken)} was not a finite number at some steps."
        )
    under_way = int(runs["status"].isin(UNDER_WAY).sum())
    texts += [f"Not complete: {counted(under_way, 'run')} of {len(runs)}."] * bool(under_way)
    waiting = len(not_evaluated(data))
    texts += [f"Not evaluated: {counted(waiting, 'run')} of {len(runs)}."] * bool(waiting)
    outdated = without_baseline(data.mean_factors[data.mean_factors["outdated"]])
    if len(outdated):
        texts.append(
            f"Not computed: mean factors of {_models(outdated)}, whose results have changed since."
            " `dreamer intervals STUDY` computes them again."
        )
    return [*texts, *_tasks(data), *filter(None, [repetition(data)])]


def _tasks(data: StudyData) -> list[str]:
    """Name the benchmarks on which a model was not evaluated that was evaluated on others."""
    texts = []
    for _, rows in data.efficiency.groupby(["depth", "variant"]):
        absent = rows[rows["own_best"].isna()]
        tasks = [task_name(task) for task in absent["task"] if task != AVERAGE]
        if tasks and len(absent) < len(rows):
            without = ", so without an average" * (AVERAGE in set(absent["task"]))
            texts.append(f"Not evaluated: {_models(absent)} on {listed(tasks)}{without}.")
    return texts


def _models(rows: pd.DataFrame) -> str:
    """Name the models that rows are of, each once."""
    return listed(list(dict.fromkeys(map(_model, rows.to_dict("records")))))


def _model(row: Mapping[str, Any]) -> str:
    return row["variant"] if row["depth"] < 0 else f"{row['variant']} at depth {row['depth']:.0f}"


def _benchmarks(data: StudyData) -> list[str]:
    """Name benchmarks near chance, a limit on their items, and few items."""
    texts = []
    near = data.efficiency[
        (data.efficiency["variant"] == data.baseline) & data.efficiency["near_chance"]
    ]
    if len(near):
        texts.append(
            f"Near chance: {data.baseline} on"
            f" {listed(sorted({task_name(task) for task in near['task']}))}."
        )
    limit = data.config("study", "evaluation").get("limit")
    if isinstance(limit, int):
        texts.append(f"Limited evaluation: the first {counted(limit, 'item')} of each task.")
    asked = data.accuracy[data.accuracy["task"] != AVERAGE].groupby("task")["items"].min().dropna()
    few = [f"{task_name(task)} ({items:.0f})" for task, items in asked.items() if items < FEW_ITEMS]
    return texts + [f"Few items, so wide errors: {listed(few)}."] * bool(few)
