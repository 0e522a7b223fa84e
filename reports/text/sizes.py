"""Say how a ratio changes with the size of the models.

Rows are those of `SizeComparison.trends`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.text.numbers import flops, three_digits
from dreamer_study.sql.statistics.errors import SIGNIFICANCE
from dreamer_study.sql.statistics.sizes import task_words

TENFOLD = 10


def sentence(row: Mapping[str, Any], baseline: str) -> str:
    """Say by how much ten times the FLOPs a token change the ratio of a variant, and where it is 1.

    Example: `DR, average accuracy: with ten times the FLOPs a token the ratio to LA is 1.6 times
    as large (95 % CI 1.2 to 2.1).`
    """
    return f"{row['variant']}, {task_words(row)}: {finding(row, baseline)}"


def finding(row: Mapping[str, Any], baseline: str) -> str:
    """Say the same without what it is about."""
    if row["sizes"] < 2:
        known = "no size has" if row["sizes"] == 0 else "only one size has"
        return f"a change with size cannot be told, as {known} a ratio with an interval."
    ends = f"{three_digits(row['per_tenfold_low'])} to {three_digits(row['per_tenfold_high'])}"
    change = f"{three_digits(row['per_tenfold'])} times as large (95 % CI {ends})"
    whole = f"with ten times the FLOPs a token the ratio to {baseline} is {change}"
    if row["p"] >= SIGNIFICANCE:
        return f"a change with size cannot be told: {whole}.{_range(row)}{_bent(row)}"
    return f"{whole}.{_range(row)} {_crossing(row)}{_bent(row)}"


def _range(row: Mapping[str, Any]) -> str:
    """Say how far the sizes reach, where that is less than what the factor is about."""
    if row["span"] >= TENFOLD:
        return ""
    sizes = f"the FLOPs of the {row['sizes']} sizes span {three_digits(row['span'])} times"
    return f" That is further than was measured: {sizes}."


def _crossing(row: Mapping[str, Any]) -> str:
    if pd.isna(row["crossing"]):
        return "No size at which both need equal tokens can be said."
    ends = f"{flops(row['crossing_low'])} to {flops(row['crossing_high'])}"
    at = f"{flops(row['crossing'])} FLOPs a token (95 % CI {ends})"
    return f"On this line both need equal tokens at {at}."


def _bent(row: Mapping[str, Any]) -> str:
    """Warn where the ratios do not lie on a line."""
    if not row["p_of_line"] < SIGNIFICANCE:  # also where it is not known
        return ""
    return (
        f" The ratios do not lie on a straight line (p {row['p_of_line']:.2g}): read them singly."
    )
