"""Put factors by the paper's rule into words: the tokens to the baseline's best accuracy, with bounds and doubts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.text.mean_factors import Finding
from reports.text.names import goal_name, model_name, task_name
from reports.text.numbers import NOTHING, THIN, factor, percent, tokens


def crossing(row: Mapping[str, Any]) -> Finding:
    """Put a row of `StudyData.efficiency` into words.

    Example: a factor 4.0 (exact) of DR gives "DR reached LA’s best average accuracy (32.3%) with 4.0 times fewer
    training tokens: 25B instead of 100B."
    """
    value, doubts = row.get("factor"), []
    if pd.isna(value):
        on = task_name(row["task"])
        sentence = f"{row['variant']} cannot be compared with {row['baseline']} on {on}: results are missing."
        return Finding(row["variant"], int(row["depth"]), NOTHING, "no factor", "", sentence, ())
    figure, unit = _large(row)
    if row.get("near_chance") is True:
        doubts.append(f"{row['baseline']} itself is within two standard errors of chance here: the factor says little.")
    if row.get("baseline_bound") == "at least":
        doubts.append(f"{row['baseline']} was best at its very first checkpoint: the factor may be too high.")
    return Finding(row["variant"], int(row["depth"]), figure, unit, "", _sentence(row), tuple(doubts))


def _large(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the figure and the unit for large type."""
    shown, bound = factor(row["factor"]), row["bound"]
    if bound == "at most":
        return f"≤{THIN}{shown}×", "at most: not reached"
    if bound == "at least":
        return f"≥{THIN}{shown}×", "at least, fewer training tokens"
    if shown == "1.0":
        return f"{shown}×", "as many training tokens" if row["factor"] == 1 else "about as many training tokens"
    return f"{shown}×", "fewer training tokens" if row["factor"] > 1 else f"that is, {_as_many(row)}"


def _sentence(row: Mapping[str, Any]) -> str:
    """Put a factor into a sentence, which begins with what the study cannot tell where the baseline is near chance."""
    best = f"{row['baseline']}’s best {goal_name(row['task'])} ({percent(row.get('baseline_accuracy'))})"
    told = _not_reached(row, best) if row["bound"] == "at most" else _reached(row, best)
    if row.get("near_chance") is not True:
        return told
    model = model_name(row)
    return f"The study cannot tell whether {model} needed fewer or more training tokens than {row['baseline']}. {told}"


def _reached(row: Mapping[str, Any], best: str) -> str:
    variant, value = row["variant"], row["factor"]
    had, needed = tokens(row.get("baseline_tokens")), tokens(row.get("variant_tokens"))
    if row["bound"] == "at least":
        sentence = (
            f"{variant} had {best} by its first checkpoint, at {needed} tokens; {row['baseline']} had it at {had}"
        )
        if value <= 1:
            return f"{sentence}. The checkpoints are too far apart to say which was first."
        return f"{sentence}: at least {factor(value)} times fewer training tokens."
    if factor(value) == "1.0":
        return f"{variant} reached {best} with {_large(row)[1]}: {needed}, {row['baseline']} {had}."
    if value > 1:
        return f"{variant} reached {best} with {factor(value)} times fewer training tokens: {needed} instead of {had}."
    return f"{variant} needed {_as_many(row)} to reach {best}: {needed} instead of {had}."


def _as_many(row: Mapping[str, Any]) -> str:
    return f"{factor(1 / row['factor'])} times as many training tokens"


def _not_reached(row: Mapping[str, Any], best: str) -> str:
    value, own, trained = row["factor"], row.get("own_best"), row.get("tokens_trained")
    within = "" if pd.isna(trained) else f" within {tokens(trained)} tokens"
    instead = "" if pd.isna(own) else f"; its own best is {percent(own)}"
    if value < 0.995:
        times = f"{1 / value:.2f}" if value > 0.5 else factor(1 / value)
        consequence = f"It would need more than {times} times {row['baseline']}’s tokens."
    elif value < 1.005:
        consequence = f"It would need more tokens than {row['baseline']}."
    else:
        consequence = "It was trained on too few tokens to say which needs fewer."
    return f"{row['variant']} did not reach {best}{within}{instead}. {consequence}"
