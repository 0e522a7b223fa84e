"""Say the answer of a study, and what makes the answer weak.

`answers` returns the sentences, `second` what the other measures say, and `warnings` what weakens
the sentences. `leading` has chosen the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.text.limitations import not_evaluated
from dreamer_study.reports.text.names import depth_name, model_name, task_name
from dreamer_study.reports.text.numbers import as_many, counted, interval, listed, some, tokens
from dreamer_study.reports.text.ratios import (
    BOUND,
    NOT_SIGNIFICANT,
    NOT_TESTED,
    NOTHING_COMMON,
    ONE_CHECKPOINT,
    ONE_SEED,
    SIGNIFICANT,
    Row,
    at_unlike_scores,
    best_estimate,
    finding,
    goal,
    measure,
    p_value,
    read_for,
    score,
    scores,
    short_ratio,
)
from dreamer_study.reports.text.token_stream import mismatch, repetition
from dreamer_study.sql.names import AVERAGE, UNDER_WAY

LINES_FROM = 3  # variants: fewer are in one paragraph
RANKED_FROM = 6  # variants: they are in a table, and counted in a sentence
# What is not significant never leads beside what is.
ORDER = (
    SIGNIFICANT,
    ONE_SEED,
    NOT_TESTED,
    BOUND,
    NOT_SIGNIFICANT,
    ONE_CHECKPOINT,
    NOTHING_COMMON,
)
COSTS = {"flops_billion_per_token": "FLOPs a token", "parameters_billion": "parameters"}
LEFT = 0.9  # of the baseline's expert size: models with smaller experts are named
MOST_OF_A_KIND = 3  # warnings, or variants that are named with their ratios
FEW_SEEDS = 3  # fewer are said beside the interval
FEW_ITEMS = 200  # a benchmark with fewer items has wide errors
TRAINING_TOKENS = "training tokens"
EQUAL = 0.01  # how far costs may differ and be called matched


def by_finding(rows: pd.DataFrame) -> pd.DataFrame:
    """Put rows of `leading` in the order in which they are said, depth by depth."""
    place = [ORDER.index(finding(row)) for row in rows.to_dict("records")]
    return (
        rows.assign(said=place).sort_values(["depth", "said"], kind="stable").drop(columns="said")
    )


def answers(
    leading: pd.DataFrame, *, only_task: bool = False, unit: str = TRAINING_TOKENS
) -> list[str]:
    """Say the ratios of each depth.

    One or two variants are in one text, up to five have a text each, and more are counted in a
    text, for a table to rank them. Example: "DR took 1.67 times as many training tokens as LA to
    reach accuracies of 46 to 53 % (95 % CI 1.35 to 2.08), and did not reach LA’s best, 74.7 %."
    """
    several_depths = leading["depth"].nunique() > 1
    texts = []
    for depth, rows in by_finding(leading).groupby("depth"):
        records = rows.to_dict("records")
        if len(records) >= RANKED_FROM:
            of_depth = [_counts(records, unit)]
        elif len(records) >= LINES_FROM:
            of_depth = [_sentence(row, only_task, unit) for row in records]
        else:
            sentences = [_sentence(row, only_task, unit, row is records[0]) for row in records]
            of_depth = [" ".join(sentences)]
        start = f"{depth_name(depth)}: " if several_depths else ""
        texts += [f"{start}{text}" for text in of_depth]
    return texts


def _sentence(row: Row, only_task: bool, unit: str, is_first: bool = True) -> str:
    """Say one ratio; only the first sentence of a text names whose tokens it is over."""
    variant = row["variant"]
    baseline = row["baseline"]
    kind = finding(row)
    reach = f"to reach {goal(row, only_task)}" if pd.notna(row["score_high"]) else ""
    if kind == NOTHING_COMMON:
        return _nothing_in_common(row, only_task)
    if pd.isna(row["ratio"]):
        return _bound(row, only_task, unit)
    noun = f" {unit}" if is_first else ""
    ratio = f"{as_many(row['ratio'])}{noun}"
    if kind == ONE_CHECKPOINT:
        return (
            f"{variant} and {baseline} are less than one checkpoint apart, no finding:"
            f" {ratio}{_in_decay(row)} {reach} ({_interval(row)}{_of_what(row)})"
            f"{_not_reached(row, 'but it')}."
        ).replace("but it did", f"but {variant} did")
    if kind == NOT_SIGNIFICANT and not _excludes_one(row):
        return (
            f"{variant} cannot be distinguished from {baseline}: {ratio}{_in_decay(row)} {reach}"
            f" ({_interval(row)}){_not_reached(row, 'but it')}."
        )
    compared = f"{ratio} as {baseline}" if is_first else ratio
    doubt = _not_significant(row) if kind == NOT_SIGNIFICANT else ""
    return (
        f"{variant} took {compared}{_in_decay(row)} {reach}"
        f" ({_interval(row)}){doubt}{_not_reached(row, 'and')}."
    )


def _in_decay(row: Row) -> str:
    """Say to which side a ratio errs whose score was reached while the learning rate decays."""
    if pd.isna(row["decay_bound"]):
        return ""
    return ", or fewer," if row["decay_bound"] == "at most" else ", or more,"


def _interval(row: Row) -> str:
    """Name the interval of a ratio, or why there is none."""
    if row["seeds"] < 2:
        return "no CI: one seed"
    ends = interval(row)
    few = f", {row['seeds']:.0f} seeds" if row["seeds"] < FEW_SEEDS else ""
    return f"95 % CI {ends}{few}" if ends else "no CI"


def _of_what(row: Row) -> str:
    """Say what an interval without 1 leaves out where models are less than a checkpoint apart."""
    if _excludes_one(row):
        return "; a CI knows of seeds and items, not of what lies between two checkpoints"
    return ""


def _excludes_one(row: Row) -> bool:
    return bool(row["low"] > 1 or row["high"] < 1)


def _not_significant(row: Row) -> str:
    """Say why a ratio is not significant whose interval, without 1, would let one think so."""
    comparisons = counted(int(row["comparisons"]), "comparison")
    p = "" if pd.isna(row["p_adjusted"]) else f" ({p_value(row['p_adjusted'])})"
    return f", which is not significant after correction for {comparisons}{p}"


def _not_reached(row: Row, and_or_but: str) -> str:
    if row["reached"] or row["in_advance"]:
        return ""
    best = f"{row['baseline']}’s best, {score(row['baseline_best'], row['metric'])}"
    return f", {and_or_but} did not reach {best}"


def _bound(row: Row, only_task: bool, unit: str) -> str:
    """Say a bound, and why there is no ratio."""
    variant = row["variant"]
    baseline = row["baseline"]
    is_lower = pd.notna(row["low"])
    least = "at least" if is_lower else "at most"
    bound = f"{least} {as_many(row['low'] if is_lower else row['high'])}"
    if row["in_advance"]:
        missing = variant if is_lower else baseline
        why = f"{missing} never reached {goal(row, only_task)}"
    elif row["near_chance"]:
        whose = "its" if is_lower else f"{baseline}’s"
        why = f"{whose} {measure(row, only_task)} never rose above chance"
    else:
        why = f"the curves have no {measure(row, only_task)} in common"
    if finding(row) == NOT_SIGNIFICANT:
        return f"{variant} cannot be distinguished from {baseline}: {bound}, as {why}."
    return f"{variant} took {bound} {unit} as {baseline}: {why}."


def _nothing_in_common(row: Row, only_task: bool) -> str:
    variant = row["variant"]
    baseline = row["baseline"]
    if row["in_advance"] and pd.notna(row["score_high"]):
        return f"Neither {variant} nor {baseline} reached {goal(row, only_task)}."
    if row["near_chance"]:
        why = f"neither {measure(row, only_task)} rose above chance"
    else:
        why = f"the curves have no {measure(row, only_task)} in common"
    return f"{variant} cannot be compared with {baseline}: {why}."


def _counts(records: list[dict[str, Any]], unit: str) -> str:
    """Say how many of many variants took fewer tokens than the baseline, and how many more.

    Of either kind few are named, and of more the one that differs most.
    """
    baseline = records[0]["baseline"]
    significant = [row for row in records if finding(row) == SIGNIFICANT]
    in_order = sorted(significant, key=best_estimate)
    fewer = [row for row in in_order if best_estimate(row) < 1]
    more = [row for row in reversed(in_order) if best_estimate(row) >= 1]
    kinds = [finding(row) for row in records]
    parts = [
        f"{len(fewer) or 'none'} took significantly fewer {unit} than {baseline}"
        f"{_those(fewer, 'fewest')}",
        f"{len(more) or 'none'} took significantly more{_those(more, 'most')}",
    ]
    others = {
        f"cannot be distinguished from {baseline}": kinds.count(NOT_SIGNIFICANT),
        f"less than one checkpoint apart from {baseline}": kinds.count(ONE_CHECKPOINT),
        "without a test (one seed, or a bound alone)": kinds.count(ONE_SEED)
        + kinds.count(NOT_TESTED)
        + kinds.count(BOUND),
        "without scores in common": kinds.count(NOTHING_COMMON),
    }
    parts += [f"{count} {words}" for words, count in others.items() if count]
    return f"Of {len(records)} variants {listed(parts)}."


def _those(rows: list[dict[str, Any]], most: str) -> str:
    """Name few variants with ratios and scores, or of more the first one."""
    if not rows:
        return ""
    named = [f"{row['variant']}, {short_ratio(row)}{_at_scores(row)}" for row in rows]
    if len(rows) <= MOST_OF_A_KIND:
        return f" ({'; '.join(named)})"
    return f" ({most}: {named[0]})"


def _at_scores(row: Row) -> str:
    """Say at which scores a ratio is; empty of a bound, which has none."""
    return f" at {scores(row)}" if scores(row) else ""


def second(data: StudyData, leading: pd.DataFrame, *, only_task: bool = False) -> list[str]:
    """Say what the other measures than that of the answer say: a text for each depth.

    Example: "Loss on held-out documents: DR 1.59x and X 1.05x (not significant)."
    """
    if leading.empty:
        return []
    rows = data.ratios
    with_accuracy = set(rows["task"][rows["metric"] == "accuracy"])
    is_other_loss = (rows["metric"] == "loss") & ~rows["task"].isin(with_accuracy)
    rows = rows[rows.index.isin(read_for(rows).index) | is_other_loss]
    rows = rows[~rows.index.isin(leading.index)]
    rows = rows[rows[["ratio", "low", "high"]].notna().any(axis=1)]
    several_depths = leading["depth"].nunique() > 1
    texts = []
    for depth, of_depth in rows.groupby("depth"):
        of_measures = []
        for _, part in of_depth.groupby(["metric", "task"], sort=False):
            name = measure(part.iloc[0], only_task)
            of_measures.append(f"{name[0].upper()}{name[1:]}: {_in_short(part)}.")
        start = f"{depth_name(depth)}: " if several_depths else ""
        texts.append(start + " ".join(of_measures))
    return texts


def _in_short(rows: pd.DataFrame) -> str:
    """List the ratios of a measure; of many variants say between which the others lie.

    Ratios at unlike scores have their scores.
    """
    records = rows.to_dict("records")
    unlike = at_unlike_scores(rows)
    if len(records) < RANKED_FROM:
        return listed([_short(row, unlike) for row in records])
    in_order = sorted(records, key=best_estimate)
    ends = [
        f"{short_ratio(row)}{_at_scores(row) if unlike else ''} ({row['variant']})"
        for row in (in_order[0], in_order[-1])
    ]
    significant = sum(finding(row) == SIGNIFICANT for row in records)
    return f"{' to '.join(ends)}; {significant} of {len(records)} significant"


def _short(row: Row, with_scores: bool) -> str:
    at_scores = _at_scores(row) if with_scores else ""
    text = f"{row['variant']} {short_ratio(row)}{at_scores}"
    kind = finding(row)
    if kind == ONE_CHECKPOINT:
        return f"{text} (less than one checkpoint apart)"
    return f"{text} ({kind})" if kind in (NOT_SIGNIFICANT, NOT_TESTED, ONE_SEED) else text


def direction(baseline: str, unit: str = TRAINING_TOKENS) -> str:
    """Say which ratio is better."""
    return f"A ratio is a variant’s {unit} over {baseline}’s: below 1 is better."


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
