"""Say the answer of a study, and what makes the answer weak.

`answers` returns a text for each depth, `warnings` what weakens these texts.
"""

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
LEFT = 0.9  # of the baseline's expert size: models with smaller experts are named
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
    texts = []
    for depth in sorted({*means["depth"], *others["depth"]}):
        of_depth = means[means["depth"] == depth]
        by_mean = of_depth[~of_depth["bounded"]]
        by_bound = of_depth[of_depth["bounded"]]
        by_crossing = others[others["depth"] == depth]
        sentences = [
            _mean_sentence(depth, rows)
            for _, rows in by_mean.groupby(["metric", "task"], sort=False)
        ]
        for row in by_bound.to_dict("records"):
            # The first sentence names the depth for all that follow.
            names_depth = depth >= 0 and not sentences
            sentences.append(_bound_sentence(row, names_depth))
        sentences += [crossing(row) for row in by_crossing.to_dict("records")]
        texts.append(" ".join(sentences))
    return texts


def _mean_sentence(depth: int, rows: pd.DataFrame) -> str:
    """Say the mean ratios of the models of one depth and measure."""
    decided = [row for row in rows.to_dict("records") if not _is_open(row)]
    undecided = [row for row in rows.to_dict("records") if _is_open(row)]
    goal = f"for equal {measure_name(rows.iloc[0])}"
    where = f"at {depth_name(depth).lower()}" if depth >= 0 else ""
    if not decided:
        parts = [f"training tokens than {baseline_of(rows)}", where, goal]
        compared = " ".join(part for part in parts if part)
        return _cannot_tell(undecided, f" {compared}")
    first, *further = decided
    clauses = [
        f"{first['variant']} needed {as_many(first['factor'])} training tokens as"
        f" {first['baseline']}{_in_brackets(first, NAMED)}"
    ]
    clauses += [f"{row['variant']} {as_many(row['factor'])}{_in_brackets(row)}" for row in further]
    start = _capitalised(f"{where}, {goal}" if where else goal)
    sentences = [f"{start}, {listed(clauses)}."]
    if undecided:
        sentences.append(_cannot_tell(undecided))
    return " ".join(sentences)


def _bound_sentence(row: Mapping[str, Any], names_depth: bool) -> str:
    """Say the bound of a model that never reached a tenth or more of the baseline's range."""
    bound = f"{never_reached(row)}."
    parts = []
    if names_depth:
        parts.append(f"At {depth_name(row['depth']).lower()},")
    if _is_open(row):
        parts.append(f"whether {row['variant']} needed fewer or more is open:")
    if not parts:
        return bound  # begins with the variant, whose name is left as it is
    return _capitalised(" ".join([*parts, bound]))


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def _is_open(row: Mapping[str, Any]) -> bool:
    """Tell whether nothing is decided.

    So where the interval holds 1, the curves are of noise alone, or an upper bound is above 1.
    """
    if row["bounded"] and row["factor"] >= 1:
        return True
    return holds_one(row) or bool(row["within_noise"])


def _cannot_tell(rows: list[dict[str, Any]], compared: str = "") -> str:
    """Say that the study decides nothing for these models.

    `compared` names with what the tokens are compared; left out where an earlier sentence did.
    """
    names = " or ".join(row["variant"] for row in rows)
    clauses = []
    for row in rows:
        # The interval is named once in a text; the names are needed only to distinguish models.
        is_first = not clauses
        span = _in_brackets(row, NAMED if compared and is_first else "")
        ratio = f"{as_many(row['factor'])}{span}"
        clauses.append(f"{row['variant']} {ratio}" if len(rows) > 1 else ratio)
    return (
        f"The study cannot tell whether {names} needed fewer or more{compared}: {listed(clauses)}."
    )


def _in_brackets(row: Mapping[str, Any], name: str = "") -> str:
    """Return the interval of a row in brackets, with a name before."""
    span = interval(row)
    return f" ({name}{span})" if span else " (no interval)"


def warnings(data: StudyData, means: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    """Name in a few words each what makes the sentences of `answers` weak, the weightiest first."""
    texts = []
    if mismatch(data):
        texts.append("The models did not all read the same tokens.")
    undecided = [_model(row) for row in means.to_dict("records") if holds_one(row)]
    if undecided:
        texts.append(
            f"Not decided: {listed(undecided)}. The interval holds 1, which is as many tokens as"
            f" {data.baseline}."
        )
    single = list(dict.fromkeys(means[means["seeds"] < 2]["variant"]))
    if single:
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
    missed = [_model(row) for row in others[others["bound"] == "at most"].to_dict("records")]
    if missed:
        texts.append(f"Not reached: {listed(missed)} had not {data.baseline}’s best at the end.")
    return [*texts, *_unequal_costs(data), *_taxes(data), *gaps(data), *_benchmarks(data)]


def _unequal_costs(data: StudyData) -> list[str]:
    """List models whose FLOPs or parameters differ from the baseline's by over 1 %.

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
        if any(abs(ratio) > EQUAL for ratio in ratios):
            differences = [
                f"{ratio:+z.0%} {name}"
                for ratio, name in zip(ratios, COSTS.values(), strict=True)
                if pd.notna(ratio)
            ]
            unequal.append(f"{_model(row)} ({', '.join(differences)})")
    texts = []
    if unequal:
        texts.append(f"Unequal costs, against {data.baseline}: {listed(unequal)}.")
    with_remarks = data.models[data.models["remarks"].notna()].to_dict("records")
    return texts + [f"{_model(row)}: {row['remarks']}." for row in with_remarks]


def _taxes(data: StudyData) -> list[str]:
    """Name the models whose experts are more than a tenth smaller than the baseline's.

    They had to be, so that the models cost the same.
    """
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
    if not taxed:
        return []
    return [
        f"Matching tax: experts smaller than {data.baseline}’s, {listed(taxed)}; larger models lose"
        " less."
    ]


def gaps(data: StudyData) -> list[str]:
    """Name in a few words each what a study lacks.

    That may be runs, which failed or have not ended, evaluations, factors, and data.
    """
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
    if under_way:
        texts.append(f"Not complete: {counted(under_way, 'run')} of {len(runs)}.")
    waiting = len(not_evaluated(data))
    if waiting:
        texts.append(f"Not evaluated: {counted(waiting, 'run')} of {len(runs)}.")
    outdated = without_baseline(data.mean_factors[data.mean_factors["outdated"]])
    if len(outdated):
        texts.append(
            f"Not computed: mean factors of {_models(outdated)}, whose results have changed since."
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
            text = f"Not evaluated: {_models(absent)} on {listed(tasks)}"
            if AVERAGE in set(absent["task"]):
                text += ", so without an average"
            texts.append(f"{text}.")
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
        tasks = sorted({task_name(task) for task in near["task"]})
        texts.append(f"Near chance: {data.baseline} on {listed(tasks)}.")
    limit = data.config("study", "evaluation").get("limit")
    if isinstance(limit, int):
        texts.append(f"Limited evaluation: the first {counted(limit, 'item')} of each task.")
    asked = data.accuracy[data.accuracy["task"] != AVERAGE].groupby("task")["items"].min().dropna()
    few = [f"{task_name(task)} ({items:.0f})" for task, items in asked.items() if items < FEW_ITEMS]
    if few:
        texts.append(f"Few items, so wide errors: {listed(few)}.")
    return texts
