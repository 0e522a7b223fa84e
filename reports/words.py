"""Numbers and findings in words: the sentences say what the views hold, with its bounds and doubts, and no more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

THIN = "\u202f"  # narrow no-break space, between a number and its unit
AVERAGE = "average"
NOTHING = "–"
TASKS = {"gsm8k": "GSM8K", "math": "MATH", "mmlu_math": "MMLU (math)", "mathqa": "MathQA", AVERAGE: "Average"}
STAGES = {
    "documents": "Read",
    "traces": "Strip reasoning traces",
    "clean": "Clean",
    "deduplicate": "Deduplicate",
    "decontaminate": "Decontaminate",
    "tokens": "Tokenise and pack",
}


def missing(value: Any) -> bool:
    """Whether a value of a view is null, in any of the forms in which pandas hands one over."""
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")


def tokens(count: Any) -> str:
    """A count in three digits and a unit: 1.43M, 25B; counts under a thousand as they are."""
    if missing(count):
        return NOTHING
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if count >= 0.9995 * size:
            return f"{count / size:.3g}{unit}" if count < 999.5 * size else f"{count / size:,.0f}{unit}"
    return f"{count:.3g}"


def number(value: Any, decimals: int = 0) -> str:
    """A number with thousands separators, or a dash for null."""
    return NOTHING if missing(value) else f"{value:,.{decimals}f}"


def percent(share: Any, decimals: int = 1) -> str:
    """A share of one in per cent, with the sign."""
    return NOTHING if missing(share) else f"{100 * share:.{decimals}f}%"


def factor(value: Any) -> str:
    """A data-efficiency factor: one decimal from 1 on, as in the paper's Table 2; two below, where they matter more."""
    if missing(value):
        return NOTHING
    if math.isinf(value):
        return "∞"
    return f"{value:.1f}" if value >= 0.995 else f"{value:.2f}"


def duration(seconds: Any) -> str:
    """Seconds as s, min, h or days."""
    if missing(seconds):
        return NOTHING
    for unit, size in (("days", 172_800), ("h", 7_200), ("min", 120)):
        if seconds >= size:
            return f"{seconds / {'days': 86_400, 'h': 3_600, 'min': 60}[unit]:.1f}{THIN}{unit}"
    return f"{seconds:.0f}{THIN}s"


def task_name(task: str) -> str:
    """How a benchmark is headed: the paper's spelling where it has one, else the name as the results have it."""
    return TASKS.get(task, task)


def stage_name(stage: str) -> str:
    """What a stage of the pipeline does; a stage that is not one of ours by its own name."""
    return STAGES.get(stage, stage)


def depth_name(depth: int, short: bool = False) -> str:
    """`Depth 16`, or `16`; a depth below zero stands for one that is not known."""
    known = str(int(depth)) if depth >= 0 else ("–" if short else "Unknown depth")
    return known if short or depth < 0 else f"Depth {known}"


def interval(row: Mapping[str, Any]) -> str:
    """`1.8 to 3.1`; `at most 3.1` or `at least 1.8` where nothing limits the other end; empty without an interval.

    An end of 0 or infinity says that the study does not limit the factor on that side (docs/statistics.md).
    """
    low, high = row.get("low"), row.get("high")
    if missing(low) or missing(high):
        return ""
    if low <= 0:
        return "without limits" if math.isinf(high) else f"at most {factor(high)}"
    return f"at least {factor(low)}" if math.isinf(high) else f"{factor(low)} to {factor(high)}"


def listed(words: Sequence[str], last: str = " and ") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])}{last}{words[-1]}"


def counted(count: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Finding:
    """One factor said in full.

    `figure` and `unit` are for large type ("2.4×", "fewer training tokens"), `short` is for a list ("DR+DA 2.4 times
    fewer training tokens"), `sentence` stands by itself, and `doubts` have to be said with it.
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


def finding(row: Mapping[str, Any], baseline: str = "LA") -> Finding:
    """The row of `data_efficiency` in words, with its interval, the variant's own best and the baseline's bound."""
    figure, unit, short, sentence = _verdict(row, baseline)
    span, doubts = interval(row), []
    if not missing(row.get("factor")):
        if not span:
            doubts.append("No interval has been computed for this factor.")
        elif row["low"] < 1 < row["high"]:
            doubts.append("The interval includes 1: the study does not show a difference.")
        if row.get("near_chance") is True:
            doubts.append(f"{baseline} itself is within two standard errors of chance here: the factor says little.")
        if row.get("baseline_bound") == "at least":
            doubts.append(f"{baseline} was best at its very first checkpoint: the factor may be too high.")
    words, reached = f"95% interval {span}" if span else "", row.get("bound") in ("exact", "at least")
    if reached:
        near = ", near chance" if row.get("near_chance") is True else ""
        short += f" ({words or 'no interval'}{near})"
    return Finding(row["variant"], int(row["depth"]), figure, unit, words, reached, short, sentence, tuple(doubts))


def _verdict(row: Mapping[str, Any], baseline: str) -> tuple[str, str, str, str]:
    """Figure, unit, clause and sentence."""
    variant, value, bound = row["variant"], row.get("factor"), row.get("bound")
    best = f"{baseline}’s best {goal_name(row['task'])} ({percent(row.get('baseline_accuracy'))})"
    had, needed = tokens(row.get("baseline_tokens")), tokens(row.get("variant_tokens"))
    if missing(value):
        sentence = f"{variant} cannot be compared with {baseline} on {task_name(row['task'])}: results are missing."
        return NOTHING, "no factor", f"{variant} cannot be compared", sentence
    shown = factor(value)
    if bound == "at most":
        return (
            f"≤{THIN}{shown}×",
            "at most: not reached",
            f"{variant} did not reach it",
            _not_reached(row, baseline, best),
        )
    if bound == "at least":
        sentence = f"{variant} had {best} by its first checkpoint, at {needed} tokens; {baseline} had it at {had}."
        if value <= 1:
            sentence += " The checkpoints are too far apart to say which was first."
        short = f"{variant} at least {shown} times fewer training tokens"
        return f"≥{THIN}{shown}×", "at least, fewer training tokens", short, sentence
    if shown == "1.0":
        much = "as many" if value == 1 else "about as many"
        sentence = f"{variant} reached {best} with {much} training tokens: {needed}, {baseline} {had}."
        return f"{shown}×", f"{much} training tokens", f"{variant} {much} training tokens", sentence
    if value > 1:
        sentence = f"{variant} reached {best} with {shown} times fewer training tokens: {needed} instead of {had}."
        return f"{shown}×", "fewer training tokens", f"{variant} {shown} times fewer training tokens", sentence
    more = f"{factor(1 / value)} times more training tokens"
    sentence = f"{variant} needed {more} to reach {best}: {needed} instead of {had}."
    return f"{shown}×", f"that is, {more}", f"{variant} {more}", sentence


def _not_reached(row: Mapping[str, Any], baseline: str, best: str) -> str:
    value, own, trained = row["factor"], row.get("own_best"), row.get("tokens_trained")
    within = "" if missing(trained) else f" within {tokens(trained)} tokens"
    instead = "" if missing(own) else f"; its own best is {percent(own)}"
    if value < 0.995:
        times = f"{1 / value:.2f}" if value > 0.5 else factor(1 / value)
        consequence = f"It would need more than {times} times {baseline}’s tokens."
    elif value < 1.005:
        consequence = f"It would need more tokens than {baseline}."
    else:
        consequence = "It was trained on too few tokens to say which needs fewer."
    return f"{row['variant']} did not reach {best}{within}{instead}. {consequence}"


def lead(findings: Sequence[Finding], task: str, baseline: str = "LA") -> str:
    """All findings of one depth on one task as a single sentence."""
    where = f"At {depth_name(findings[0].depth).lower()}, r" if findings[0].depth >= 0 else "R"
    reached = [one.short for one in findings if one.reached]
    others = [one.short for one in findings if not one.reached]
    if not reached:
        return f"{where}eaching {baseline}’s best {goal_name(task)}: {listed(others)}."
    rest = f"; {listed(others)}" if others else ""
    return f"{where}eaching {baseline}’s best {goal_name(task)} took {listed(reached)}, compared with {baseline}{rest}."


def goal_name(task: str) -> str:
    """`average accuracy`, or `accuracy on GSM8K`."""
    return "average accuracy" if task == AVERAGE else f"accuracy on {task_name(task)}"
