"""Put data-efficiency factors into sentences, with their bounds and doubts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports.data import BASELINE
from reports.text.names import depth_name, goal_name, task_name
from reports.text.numbers import NOTHING, THIN, factor, interval, listed, percent, tokens


@dataclass(frozen=True)
class Finding:
    """One factor in words.

    `figure` and `unit` are for large type ("2.4×", "fewer training tokens"), `short` is for a list ("DR+DA 2.4 times
    fewer training tokens"), `sentence` stands by itself, and `doubts` have to be shown beside it.
    """

    variant: str
    depth: int
    figure: str
    unit: str
    interval: str
    reached: bool
    short: str
    sentence: str
    doubts: tuple[str, ...]


def finding(row: Mapping[str, Any]) -> Finding:
    """Put a row of `StudyData.efficiency` into words.

    Example: a factor 4.0 (exact, interval 3.0 to 5.5) of DR gives "DR reached LA’s best average accuracy (32.3%) with
    4.0 times fewer training tokens: 25B instead of 100B."
    """
    figure, unit, short, sentence = _verdict(row)
    span, doubts = interval(row), []
    if not pd.isna(row.get("factor")):
        if not span:
            doubts.append("No interval has been computed for this factor.")
        elif row["low"] < 1 < row["high"]:
            doubts.append("The interval includes 1: the study does not show a difference.")
        if row.get("near_chance") is True:
            doubts.append(f"{BASELINE} itself is within two standard errors of chance here: the factor says little.")
        if row.get("baseline_bound") == "at least":
            doubts.append(f"{BASELINE} was best at its very first checkpoint: the factor may be too high.")
    words, reached = f"95% interval {span}" if span else "", row.get("bound") in ("exact", "at least")
    if reached:
        near = ", near chance" if row.get("near_chance") is True else ""
        short += f" ({words or 'no interval'}{near})"
    return Finding(row["variant"], int(row["depth"]), figure, unit, words, reached, short, sentence, tuple(doubts))


def _verdict(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return `figure`, `unit`, `short` and `sentence` of a finding."""
    variant, value, bound = row["variant"], row.get("factor"), row.get("bound")
    best = f"{BASELINE}’s best {goal_name(row['task'])} ({percent(row.get('baseline_accuracy'))})"
    had, needed = tokens(row.get("baseline_tokens")), tokens(row.get("variant_tokens"))
    if pd.isna(value):
        sentence = f"{variant} cannot be compared with {BASELINE} on {task_name(row['task'])}: results are missing."
        return NOTHING, "no factor", f"{variant} cannot be compared", sentence
    shown = factor(value)
    if bound == "at most":
        return f"≤{THIN}{shown}×", "at most: not reached", f"{variant} did not reach it", _not_reached(row, best)
    if bound == "at least":
        sentence = f"{variant} had {best} by its first checkpoint, at {needed} tokens; {BASELINE} had it at {had}."
        if value <= 1:
            sentence += " The checkpoints are too far apart to say which was first."
        short = f"{variant} at least {shown} times fewer training tokens"
        return f"≥{THIN}{shown}×", "at least, fewer training tokens", short, sentence
    if shown == "1.0":
        unit = "as many training tokens" if value == 1 else "about as many training tokens"
        return (
            f"{shown}×",
            unit,
            f"{variant} {unit}",
            f"{variant} reached {best} with {unit}: {needed}, {BASELINE} {had}.",
        )
    if value > 1:
        fewer = f"{shown} times fewer training tokens"
        sentence = f"{variant} reached {best} with {fewer}: {needed} instead of {had}."
        return f"{shown}×", "fewer training tokens", f"{variant} {fewer}", sentence
    more = f"{factor(1 / value)} times more training tokens"
    sentence = f"{variant} needed {more} to reach {best}: {needed} instead of {had}."
    return f"{shown}×", f"that is, {more}", f"{variant} {more}", sentence


def _not_reached(row: Mapping[str, Any], best: str) -> str:
    value, own, trained = row["factor"], row.get("own_best"), row.get("tokens_trained")
    within = "" if pd.isna(trained) else f" within {tokens(trained)} tokens"
    instead = "" if pd.isna(own) else f"; its own best is {percent(own)}"
    if value < 0.995:
        times = f"{1 / value:.2f}" if value > 0.5 else factor(1 / value)
        consequence = f"It would need more than {times} times {BASELINE}’s tokens."
    elif value < 1.005:
        consequence = f"It would need more tokens than {BASELINE}."
    else:
        consequence = "It was trained on too few tokens to say which needs fewer."
    return f"{row['variant']} did not reach {best}{within}{instead}. {consequence}"


def lead(findings: Sequence[Finding], task: str) -> str:
    """Put all findings of one depth on one task into a single sentence."""
    where = f"At {depth_name(findings[0].depth).lower()}, r" if findings[0].depth >= 0 else "R"
    goal = f"{where}eaching {BASELINE}’s best {goal_name(task)}"
    reached = [found.short for found in findings if found.reached]
    others = [found.short for found in findings if not found.reached]
    if not reached:
        return f"{goal}: {listed(others)}."
    rest = f"; {listed(others)}" if others else ""
    return f"{goal} took {listed(reached)}, compared with {BASELINE}{rest}."
