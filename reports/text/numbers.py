"""Format numbers for people: token counts, ratios, shares, durations, intervals.

Null is a dash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dreamer_study.pipeline.wording import counted as counted

THIN = "\u202f"  # narrow no-break space, between a number and its unit
NOTHING = "–"
MOST_WRITTEN_OUT = 999_500  # FLOPs: more have an exponent
MOST_NAMED = 5  # in a list of many within a sentence
MANY_MODELS = 6  # where there are more, a sentence names the best and the worst
TIMES = {"days": 86_400, "h": 3_600, "min": 60}  # units of time in seconds


def tokens(count: Any) -> str:
    """Format a count in three digits and a unit: 1.43M, 25B.

    Counts under a thousand have no unit.
    """
    if pd.isna(count):
        return NOTHING
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if count >= 999.5 * size:  # of the largest unit: 1,500T
            return f"{count / size:,.0f}{unit}"
        if count >= 0.9995 * size:  # less rounds to 999 of the next smaller unit
            return f"{count / size:.3g}{unit}"
    return f"{count:.3g}"


def number(value: Any, decimals: int = 0) -> str:
    """Format a number with thousands separators: 12,345.6."""
    return NOTHING if pd.isna(value) else f"{value:,.{decimals}f}"


def figure(value: Any, digits: int = 3) -> str:
    """Format a number in three digits, or as many as wanted, without an exponent: 2,400, 0.012."""
    if pd.isna(value):
        return NOTHING
    if not value or math.isinf(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def flops(value: float) -> str:
    """Format a number of FLOPs in three digits: 449,000 for a token, 1.28e21 for a training."""
    if pd.isna(value):
        return NOTHING
    if math.isinf(value) or value < MOST_WRITTEN_OUT:
        return figure(value)
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def percent(share: Any, decimals: int = 1, error: Any = None) -> str:
    """Format a share of one in per cent: 32.3%, or with its standard error 32.3% ± 1.2."""
    if pd.isna(share):
        return NOTHING
    text = f"{100 * share:.{decimals}f}%"
    return text if pd.isna(error) else f"{text} ± {100 * error:.1f}"


def duration(seconds: Any) -> str:
    """Format seconds in the largest unit that gives at least 2: 2.5 h, 259 s; under 1 s."""
    if pd.isna(seconds):
        return NOTHING
    for unit, size in TIMES.items():
        if seconds >= 2 * size:
            return f"{seconds / size:.1f}{THIN}{unit}"
    if 0 < seconds < 0.5:
        return f"under 1{THIN}s"
    return f"{seconds:.0f}{THIN}s"


def ratio(value: Any) -> str:
    """Format the tokens of a variant over those of the baseline: 0.062, 0.40, 1.24, 12.5, 1,020."""
    if pd.isna(value):
        return NOTHING
    if math.isinf(value):
        return "∞"
    if value >= 99.95:
        return three_digits(value)
    if value >= 9.995:
        return f"{value:.1f}"
    if value >= 0.1:
        return f"{value:.2f}"
    return f"{value:.2g}"


def three_digits(value: Any) -> str:
    """Format a number in three digits: 0.0624, 0.749, 1.61, 12.5, 1,020."""
    if pd.isna(value):
        return NOTHING
    if math.isinf(value):
        return "∞"
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def times(value: Any) -> str:
    """Format a ratio where its noun is not beside it: `1.24x`."""
    return NOTHING if pd.isna(value) else f"{ratio(value)}x"


def as_many(value: Any) -> str:
    """Say a ratio: `1.24 times as many`."""
    return f"{ratio(value)} times as many"


def interval(row: Mapping[str, Any]) -> str:
    """Format the interval of a ratio from `low` to `high`: 1.05 to 1.46.

    An end that is unknown is left out: `at least 1.05`. Empty for none.
    """
    low, high = row.get("low"), row.get("high")
    if pd.isna(low) and pd.isna(high):
        return ""
    if pd.isna(high):
        return f"at least {ratio(low)}"
    if pd.isna(low):
        return f"at most {ratio(high)}"
    return f"{ratio(low)} to {ratio(high)}"


def span(first: float, last: float, metric: str) -> str:
    """Format scores from the first to the last one: `47 to 53 %`, or losses `1.83 to 1.62`.

    With as many decimals as tell both apart, and once where they are equal.
    """
    if metric == "accuracy":
        scale, unit, decimals = 100, " %", (0, 1, 2)
    else:
        scale, unit, decimals = 1, "", (2, 3, 4)
    if first == last:
        return f"{scale * last:.{decimals[-2]}f}".rstrip("0").rstrip(".") + unit
    for few in decimals:
        texts = [f"{scale * score:.{few}f}" for score in (first, last)]
        if texts[0] != texts[1]:
            break
    return f"{texts[0]} to {texts[1]}{unit}"


def listed(items: Sequence[str]) -> str:
    """Join texts to a list: `a`, `a and b`, `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def some(items: Sequence[str]) -> str:
    """Join texts to a list; of many the first ones are named: `a, b, c, d, e and 7 more`."""
    if len(items) <= MOST_NAMED + 1:
        return listed(items)
    return f"{', '.join(items[:MOST_NAMED])} and {len(items) - MOST_NAMED} more"


def bests(models: Sequence[tuple[str, str, str]]) -> str:
    """List the best value of each model from (name, value, where).

    Example: `LA 34.8% and DR 34.0%, each at 451K tokens`. Of many models the first and the last
    are named: `models` are then in the order of their values.
    """
    if len(models) > MANY_MODELS:
        first, last = (f"{name} {value} {where}" for name, value, where in (models[0], models[-1]))
        return f"of {len(models)} models the best is {first}, the worst {last}"
    places = {where for _, _, where in models}
    if len(models) > 1 and len(places) == 1:
        values = [f"{name} {value}" for name, value, _ in models]
        return f"{listed(values)}, each {places.pop()}"
    return listed([f"{name} {value} {where}" for name, value, where in models])
