"""Compare the answers of studies of several sizes: does a gain survive scale?

Each study has its own ratios of tokens, over its own baseline. The line through their logarithms
over the logarithm of the baseline's FLOPs a token says by which factor the ratio changes for each
doubling of the FLOPs (trends.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.sql.connection import connect
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.results import ask
from dreamer_study.sql.statistics.comparability import average_notes, read_asked, task_notes
from dreamer_study.sql.statistics.trends import fit_trend

COSTS = {"flops": "flops_per_token", "parameters": "parameters"}  # sizes that every model has
QUESTION = ["variant", "task", "metric"]


@dataclass(frozen=True)
class Sizes:
    """Ratios by size, and how they change with it.

    `ratios` has a row for each study, depth, variant, task and metric: the size in the words that
    were asked for, FLOPs a token of the baseline, the ratio with its interval, and seeds. `trends`
    has a row for each variant, task and metric: `times`, by which the ratio changes for each
    doubling of the FLOPs, with its 95 % interval `times_low` to `times_high`, the p-value of no
    change, and `crossing`, the FLOPs a token at which both models need equal tokens, with its
    interval, null where the interval of `times` holds 1. `notes` name what is left out.
    """

    ratios: pd.DataFrame
    trends: pd.DataFrame
    notes: list[str]


def over_sizes(studies: Sequence[tuple[Path, str]], size: str) -> Sizes:
    """Read the ratios of studies (results file and id), and fit a line for each variant.

    `size` is flops, parameters, or a field of the baseline's configuration, such as hidden_size.
    Raises InputError where the studies have fewer than two sizes, no variant in common, different
    baselines or benchmarks, or no such field.
    """
    rows = pd.concat(
        [ask(path, "ratios_of_size", study=study).assign(study=study) for path, study in studies],
        ignore_index=True,
    )
    if rows.empty:
        raise InputError("none of the studies has a ratio; `dreamer intervals` computes them")
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
    _check_questions(studies)
    notes = []
    whole = rows["ratio"].notna() & rows["error"].notna() & ~rows["outdated"]
    for row in rows[~whole].to_dict("records"):
        why = "results changed after it was computed" if row["outdated"] else _missing(row)
        what = "average" if row["task"] == AVERAGE else "held-out"
        notes.append(f"left out: {row['variant']} in {row['study']}, {what} {row['metric']}: {why}")
    known = rows[whole]
    trends = [
        _trend(dict(zip(QUESTION, question, strict=True)), of_question)
        for question, of_question in known.groupby(QUESTION, sort=False)
        if of_question["flops_per_token"].nunique() > 1
    ]
    if not trends:
        raise InputError(
            "; ".join(["no variant has a ratio with an interval at two sizes", *notes])
        )
    shown = rows.drop(columns=["config", "error", "degrees_of_freedom"])
    shown = shown.sort_values([*QUESTION, "flops_per_token"], ignore_index=True)
    return Sizes(shown, pd.DataFrame(trends), notes)


def _size(row: dict[str, Any], size: str) -> Any:
    """Return the size of a row's baseline: a cost of it, or a field of its configuration."""
    if size in COSTS:
        return row[COSTS[size]]
    config = json.loads(row["config"])
    fields = {**config, **config.get("config", {})}  # those of a class lie one level deeper
    if size not in fields:
        named = [*COSTS, *(name for name, value in fields.items() if isinstance(value, int))]
        rest = nearest(size, named, f"; there are {', '.join(named)}")
        raise InputError(
            f"--over {size}: {row['baseline']} of {row['study']} has no such size{rest}"
        )
    return fields[size]


def _missing(row: dict[str, Any]) -> str:
    if math.isnan(row["ratio"]):
        return "the curves have no scores in common"
    return "with one seed there is no interval"


def _check_questions(studies: Sequence[tuple[Path, str]]) -> None:
    """Raise InputError where averages are not over the same items in all studies."""
    asked = []
    for path, study in studies:
        with closing(connect(path, read_only=True)) as connection:
            asked.append(read_asked(connection, study))
    for (_, study), other in zip(studies[1:], asked[1:], strict=True):
        left_out, reasons = task_notes(asked[0], other)
        if average_notes((asked[0], other), left_out):
            raise InputError(
                f"{studies[0][1]} (first) and {study} (second) do not ask the same questions:"
                f" {'; '.join(reasons)}"
            )


def _trend(question: dict[str, str], rows: pd.DataFrame) -> dict[str, Any]:
    trend = fit_trend(
        np.log(rows["flops_per_token"].to_numpy(float)),
        np.log(rows["ratio"].to_numpy(float)),
        rows["error"].to_numpy(float),
        rows["degrees_of_freedom"].to_numpy(float),
    )
    crossing = [None] * 3 if trend.crossing is None else [math.exp(at) for at in trend.crossing]
    return {
        **question,
        "sizes": rows["flops_per_token"].nunique(),
        "times": 2**trend.slope,
        "times_low": 2**trend.low,
        "times_high": 2**trend.high,
        "p": trend.p,
        "crossing": crossing[0],
        "crossing_low": crossing[1],
        "crossing_high": crossing[2],
    }
