"""Say the answer of a study.

`answers` returns the sentences, and `second` what the other measures say. `leading` has chosen the
rows. What makes the sentences weak is in `weaknesses.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.text.names import depth_name
from dreamer_study.reports.text.numbers import as_many, counted, interval, listed
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
MOST_OF_A_KIND = 3  # variants that are named with their ratios
FEW_SEEDS = 3  # fewer are said beside the interval
TRAINING_TOKENS = "training tokens"


def by_finding(rows: pd.DataFrame) -> pd.DataFrame:
    """Put rows of `leading` in the order in which they are said, depth by depth."""
    place = [ORDER.index(finding(row)) for row in rows.to_dict("records")]
    return (
        rows.assign(said=place).sort_values(["depth", "said"], kind="stable").drop(columns="said")
    )


def answers(
    leading: pd.DataFrame,
    *,
    only_task: bool = False,
    unit: str = TRAINING_TOKENS,
    elsewhere: Collection[str] = (),
) -> list[str]:
    """Say the ratios of each depth.

    One or two variants are in one text, up to five have a text each, and more are counted in a
    text, for a table to rank them. Example: "DR took 1.67 times as many training tokens as LA to
    reach accuracies of 46 to 53 % (95 % CI 1.35 to 2.08), and did not reach LA’s best, 74.7 %."
    Where many variants stand beside rows that were measured `elsewhere`, the few that the study has
    trained itself come first, a text each: the study was made for them.
    """
    several_depths = leading["depth"].nunique() > 1
    texts = []
    for depth, rows in by_finding(leading).groupby("depth"):
        records = rows.to_dict("records")
        if len(records) >= RANKED_FROM:
            own = _few_of_its_own(records, elsewhere)
            of_depth = [_sentence(row, only_task, unit) for row in own]
            of_depth.append(_counts(records, unit))
        elif len(records) >= LINES_FROM:
            of_depth = [_sentence(row, only_task, unit) for row in records]
        else:
            sentences = [_sentence(row, only_task, unit, row is records[0]) for row in records]
            of_depth = [" ".join(sentences)]
        start = f"{depth_name(depth)}: " if several_depths else ""
        texts += [f"{start}{text}" for text in of_depth]
    return texts


def _few_of_its_own(
    records: list[dict[str, Any]], elsewhere: Collection[str]
) -> list[dict[str, Any]]:
    """Return the rows that the study has trained itself; none where all or many are its own."""
    own = [row for row in records if row["variant"] not in elsewhere]
    return own if len(own) < min(RANKED_FROM, len(records)) else []


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
        return f"{variant} cannot be distinguished from {baseline}: {bound} {unit}, because {why}."
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
