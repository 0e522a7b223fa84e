"""Compare the answers of studies of several sizes: does a gain survive scale?

Each study has its own ratios of tokens, over its own baseline. The line through their logarithms
over the logarithm of the baseline's FLOPs a token says by which factor the ratio changes with ten
times the FLOPs (trends.py).

    small.yaml    DR over LA: 0.80 at  410 kFLOPs a token
    large.yaml    DR over LA: 1.21 at 1.6 MFLOPs a token     2.0 times as large with ten times
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.sql.names import AT_LEAST, AT_MOST, AVERAGE
from dreamer_study.sql.results import ask
from dreamer_study.sql.statistics.comparability import average_notes, task_notes
from dreamer_study.sql.statistics.trained import (
    PACKED,
    SEARCHED,
    TOKENIZER,
    VALIDATION,
    Trained,
    TrainedStudy,
    differing,
    named,
    other_settings,
    read_trained,
    same_held_out,
)
from dreamer_study.sql.statistics.trends import Points, fit_trend, line_at

COSTS = {"flops": "flops_per_token", "parameters": "parameters"}  # sizes that every model has
QUESTION = ["variant", "task", "metric"]
PLACES = 25  # of a line, for a figure


@dataclass(frozen=True)
class SizeComparison:
    """Ratios by size, and how they change with it.

    `ratios` has a row for each study, depth, variant, task and metric: the size in the words that
    were asked for, FLOPs a token and parameters of the baseline, the columns of `token_ratios`, and
    `on_line`. A ratio that is a bound alone is not on the line: `bound` says 'at least' or 'at
    most', and `value` what; elsewhere `value` is the ratio.

    `trends` has a row for each variant, task and metric: the number of `sizes` on the line, the
    `span` of their FLOPs (largest / smallest), `per_tenfold`, the factor by which ten times the
    FLOPs a token change the ratio, with its 95 % interval `per_tenfold_low` to `per_tenfold_high`,
    the p-value of no change, `p_of_line` of a straight line (from three sizes on), and `crossing`,
    the FLOPs a token at which both models need equal tokens, with its interval. What cannot be said
    is null.

    `lines` has the lines between the smallest and the largest size, with their 95 % bands. `notes`
    name what is left out, and what differs between the studies beside their sizes.
    """

    ratios: pd.DataFrame
    trends: pd.DataFrame
    lines: pd.DataFrame
    notes: list[str]


def over_sizes(studies: Sequence[tuple[Path, str]], size: str) -> SizeComparison:
    """Read the ratios of studies (results file and id), and fit a line for each variant.

    `size` is flops, parameters, or a field of the baseline's configuration, such as hidden_size.
    Raises InputError where a study is named twice or has no ratios, where the studies have fewer
    than two sizes, no variant in common, different baselines or benchmarks, or no such field.
    """
    read = named([read_trained(path, study_id) for path, study_id in studies])
    rows = pd.concat([_ratios(study) for study in read], ignore_index=True)
    baselines = sorted(set(rows["baseline"]))
    if len(baselines) > 1:
        raise InputError(
            f"the studies have different baselines, {' and '.join(baselines)}: ratios over these"
            " do not compare; name one by models.baseline"
        )
    rows.insert(0, "size", [_size(row, size) for row in rows.to_dict("records")])
    if rows["flops_per_token"].nunique() < 2:
        raise InputError(
            "all baselines cost the same FLOPs a token; give studies of two or more sizes"
        )
    _refuse_other_questions(read)
    notes = [*_differences(read), *_other_lengths(rows)]
    if not all(same_held_out(read[0], other) for other in read[1:]):
        rows = rows[rows["task"] != VALIDATION]
        if any(study.held_out for study in read):
            notes.append(
                "left out: the losses on held-out documents, as these are not the same in all"
                " studies (`data.like` takes those of another study)"
            )
    rows = rows.assign(**_values(rows))
    notes += [_why_not_on_line(row) for row in rows[~rows["on_line"]].to_dict("records")]
    by_question = [
        (dict(zip(QUESTION, question, strict=True)), of_question[of_question["on_line"]])
        for question, of_question in rows.groupby(QUESTION, sort=False)
        if of_question["flops_per_token"].nunique() > 1
    ]
    if not by_question:
        raise InputError("; ".join(["the studies have no variant in common", *notes]))
    for question, points in by_question:
        notes += [*_missed(question, points), *_decays(question, points)]
    shown = rows.drop(columns=["config", "error", "item_error", "degrees_of_freedom"])
    return SizeComparison(
        shown.sort_values([*QUESTION, "flops_per_token"], ignore_index=True),
        pd.DataFrame([_trend(question, points) for question, points in by_question]),
        pd.concat([_line(question, points) for question, points in by_question]),
        notes,
    )


def _ratios(study: TrainedStudy) -> pd.DataFrame:
    """Read the ratios of a study; raises InputError where it has none."""
    rows = ask(study.path, "ratios_of_size", study=study.study_id)
    if rows.empty:
        raise InputError(
            f"{study.name} has no ratio: its baseline or every variant is without a curve, or"
            " `dreamer intervals` has yet to compute them"
        )
    return rows.assign(study=study.name)


def _size(row: dict[str, Any], size: str) -> Any:
    """Return the size of a row's baseline: a cost of it, or a field of its configuration."""
    if size in COSTS:
        return row[COSTS[size]]
    fields = _fields(json.loads(row["config"]))
    if size not in fields:
        named = [*COSTS, *(name for name, value in fields.items() if _is_size(value))]
        rest = nearest(size, named, f"; there are {', '.join(named)}")
        raise InputError(
            f"--over {size}: {row['baseline']} of {row['study']} has no such size{rest}"
        )
    return fields[size]


def _fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration; those of a class lie one level deeper."""
    return {**config, **config.get("config", {})}


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# --- what must be equal, and notes on what differs ---


def _refuse_other_questions(studies: Sequence[TrainedStudy]) -> None:
    """Raise InputError where averages are not over the same items in all studies."""
    first, *others = studies
    for other in others:
        left_out, reasons = task_notes(first.asked, other.asked)
        if average_notes((first.asked, other.asked), left_out):
            raise InputError(
                f"{first.name} (first) and {other.name} (second) do not ask the same questions:"
                f" {'; '.join(reasons)}"
            )


def _differences(studies: Sequence[TrainedStudy]) -> Iterator[str]:
    """Say in which of all that decides a comparison a study differs from the first one.

    Sizes may differ, which are whole numbers of a configuration, and searched settings.
    """
    first, *others = studies
    for other in others:
        if not (first.inputs and other.inputs):
            unknown = other if first.inputs else first
            yield f"beware: {unknown.name} does not say on which data it was trained, nor how"
            continue
        differing_inputs = [
            f"{what} ({value} in place of {first.inputs[what]})"
            for what, value in other.inputs.items()
            if what.startswith("evaluation.") and first.inputs.get(what, value) != value
        ]
        for what in (TOKENIZER, PACKED):
            if first.inputs.get(what) != other.inputs.get(what):
                differing_inputs.append(what)
        found = [*differing_inputs, *other_settings(first, other), *_models_apart(first, other)]
        if found:
            pair = f"{other.name} differs from {first.name}"
            yield f"beware: {pair} beside its size: {'; '.join(found)}"
    yield from _searched(studies)


def _other_lengths(rows: pd.DataFrame) -> Iterator[str]:
    """Say where studies were trained on other numbers of tokens."""
    trained = rows.groupby("study", sort=False)["trained_tokens"].max()
    if trained.nunique() > 1:
        listed = ", ".join(f"{tokens:,} in {study}" for study, tokens in trained.items())
        yield f"beware: the studies were not trained on equally many tokens: {listed}"


def _models_apart(first: TrainedStudy, other: TrainedStudy) -> Iterator[str]:
    """Say how recipes differ, searched settings aside, and models, their sizes aside."""
    there = _by_variant(other)
    for variant, here in _by_variant(first).items():
        if variant not in there:
            continue
        recipes = differing(here.recipe, there[variant].recipe)
        for name, value, value_there in recipes:
            if name not in SEARCHED and f"training.{name}" not in first.inputs:
                yield f"{variant} has {name} {value_there} in place of {value}"
        configs = differing(_fields(here.config), _fields(there[variant].config))
        for name, value, value_there in configs:
            if name != "config" and not (_is_size(value) and _is_size(value_there)):
                yield f"{variant} has {name} {value_there} in place of {value}"


def _searched(studies: Sequence[TrainedStudy]) -> Iterator[str]:
    """Say for each variant the settings that each size has of its own."""
    variants = {variant: None for study in studies for variant in _by_variant(study)}
    for variant in variants:
        trained = {study.name: _by_variant(study).get(variant) for study in studies}
        for name in SEARCHED:
            values = {
                study: of_study.recipe.get(name) for study, of_study in trained.items() if of_study
            }
            if len({json.dumps(value, sort_keys=True) for value in values.values()}) > 1:
                listed = ", ".join(f"{value} in {study}" for study, value in values.items())
                yield f"each size has its own {name} of {variant}: {listed}"


def _by_variant(study: TrainedStudy) -> dict[str, Trained]:
    """Return how each variant was trained, at the study's first depth."""
    trained: dict[str, Trained] = {}
    for (_, variant), how in study.models.items():
        trained.setdefault(variant, how)
    return trained


# --- points and bounds ---


def _values(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Say of each ratio whether it is on the line, or of which bound and value it is."""
    has_ratio = rows["ratio"].notna()
    bound = pd.Series("", index=rows.index)
    bound = bound.mask(~has_ratio & rows["high"].notna(), AT_MOST)
    bound = bound.mask(~has_ratio & rows["low"].notna(), AT_LEAST)
    value = rows["ratio"].fillna(rows["low"]).fillna(rows["high"])
    on_line = bound.eq("") & has_ratio & rows["error"].notna() & ~rows["outdated"].astype(bool)
    return {"bound": bound, "value": value, "on_line": on_line}


def _why_not_on_line(row: Mapping[str, Any]) -> str:
    what = f"{row['variant']} in {row['study']}, {task_words(row)}"
    if row["outdated"]:
        why = "results changed after it was computed; `dreamer intervals` computes it again"
    elif row["bound"]:
        why = f"a bound alone is known, {row['bound']} {row['value']:.3g} times the tokens"
    elif math.isnan(row["ratio"]):
        why = "the curves have no scores in common"
    else:
        why = "with one seed there is no interval"
    return f"not on the line: {what}: {why}"


def task_words(row: Mapping[str, Any]) -> str:
    """Name what a ratio is of: `average accuracy`, `held-out loss`."""
    return f"{'average' if row['task'] == AVERAGE else 'held-out'} {row['metric']}"


def _missed(question: Mapping[str, str], points: pd.DataFrame) -> Iterator[str]:
    """Say which ratios are over scores below the baseline's best, as the variant's best is lower.

    These ratios stay on the line: at equal tokens a line without them would have lost every clear
    ratio above 1, and none below.
    """
    missed = points[points["reached"].eq(False)]
    if len(missed):
        best = f"the best of {missed['baseline'].iloc[0]}"
        listed = ", ".join(
            f"at least {row['at_least']:.3g} in {row['study']}" for row in missed.to_dict("records")
        )
        yield (
            f"{question['variant']}, {task_words(question)}: {best} was not reached; the ratio is"
            f" over the scores that both reach, and to {best} it is {listed}"
        )


def _decays(question: Mapping[str, str], points: pd.DataFrame) -> Iterator[str]:
    """Say which points are bounds because a learning rate decays."""
    bounds = points[points["decay_bound"].notna()]
    if len(bounds):
        listed = ", ".join(
            f"{row['decay_bound']} {row['ratio']:.3g} in {row['study']}"
            for row in bounds.to_dict("records")
        )
        yield (
            f"beware: {question['variant']}, {task_words(question)}: scores were reached while the"
            f" rate decays, so the true ratios are further from 1 ({listed}); the line is through"
            " the ratios along the runs"
        )


# --- lines ---


def _points(rows: pd.DataFrame) -> Points:
    return Points(
        log_sizes=np.log(rows["flops_per_token"].to_numpy(float)),
        log_ratios=np.log(rows["ratio"].to_numpy(float)),
        errors=rows["error"].to_numpy(float),
        item_errors=rows["item_error"].to_numpy(float),
        freedom=rows["degrees_of_freedom"].to_numpy(float),
    )


def _trend(question: Mapping[str, str], rows: pd.DataFrame) -> dict[str, Any]:
    """Make a row of `trends`; its numbers are null where fewer than two sizes are on the line."""
    sizes = rows["flops_per_token"].nunique()
    numbers = ("per_tenfold", "per_tenfold_low", "per_tenfold_high", "p", "p_of_line")
    crossings = ("crossing", "crossing_low", "crossing_high")
    row = {**question, "sizes": sizes, "span": math.nan}
    row |= dict.fromkeys([*numbers, *crossings], math.nan)
    if sizes < 2:
        return row
    trend = fit_trend(_points(rows))
    flops = rows["flops_per_token"]
    # the line is in natural logarithms on both axes, so ten times the FLOPs give 10^slope
    per_tenfold = (10**slope for slope in (trend.slope, trend.low, trend.high))
    row |= {"span": flops.max() / flops.min()}
    p_of_line = math.nan if trend.p_of_line is None else trend.p_of_line
    row |= dict(zip(numbers, [*per_tenfold, trend.p, p_of_line], strict=True))
    if trend.crossing is not None:
        row |= dict(zip(crossings, map(math.exp, trend.crossing), strict=True))
    return row


def _line(question: Mapping[str, str], rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `lines` of a question; none with fewer than two sizes on the line."""
    columns = ["flops_per_token", "ratio", "low", "high"]
    if rows["flops_per_token"].nunique() < 2:
        return pd.DataFrame(columns=[*QUESTION, *columns])
    flops = rows["flops_per_token"].to_numpy(float)
    places = np.geomspace(flops.min(), flops.max(), PLACES)
    values = np.exp(line_at(_points(rows), np.log(places)))
    frame = pd.DataFrame(dict(zip(columns, [places, *values], strict=True)))
    return frame.assign(**question)[[*QUESTION, *columns]]
