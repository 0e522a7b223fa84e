"""Compare what a study was expected to show with what the study shows.

An instrument is checked by such known effects. Study files hold expectations, so that what takes
long to import (pandas, scipy) is imported where they are checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

if TYPE_CHECKING:
    import pandas as pd

# Of an interval that is to hold a value: one of 95 % would fail on one machine in twenty.
CERTAIN = 0.999
RULES = ("holds", "below", "above", "at_most", "at_least")
Positive = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Expectation:
    """What a mean factor, or the factor at one accuracy, is expected to be.

    A factor is the tokens of `against` over those of `variant`. `holds`: the 99.9 % interval holds
    this value. `below`, `above`: the 95 % interval lies on that side of this value; that of the
    bound where the variant never reached much of the other's range: an upper bound is above
    nothing. `at` with `at_most` or `at_least`: the factor at this accuracy; a variant that never
    reaches the accuracy counts with all tokens that it was trained on, where the factor is to be
    low. `against` is a variant, by default the study's baseline; `task` a benchmark or 'average'.
    """

    variant: str
    against: str | None = None
    task: str = "average"
    metric: Literal["accuracy", "loss"] = "accuracy"
    holds: Positive | None = None
    below: Positive | None = None
    above: Positive | None = None
    at: Annotated[float, Field(gt=0, le=1)] | None = None
    at_most: Positive | None = None
    at_least: Positive | None = None

    @model_validator(mode="after")
    def _one_rule(self) -> Expectation:
        rules = [name for name in RULES if getattr(self, name) is not None]
        has_accuracy = self.at is not None
        if len(rules) != 1 or has_accuracy != (rules[0] in ("at_most", "at_least")):
            raise ValueError(
                "give one of holds, below and above, or `at` with one of at_most and at_least"
            )
        if has_accuracy and self.metric != "accuracy":
            raise ValueError("`at` is an accuracy; leave out `metric`")
        return self

    @property
    def rule(self) -> tuple[str, float]:
        """The name of the rule and its value."""
        values = {name: getattr(self, name) for name in RULES}
        return next((name, value) for name, value in values.items() if value is not None)


def check_expectations(
    path: Path | str, study_id: str, expectations: Sequence[Expectation]
) -> pd.DataFrame:
    """Measure each expectation on the results of a study.

    One row each of expected, measured (by depth) and held. An expectation is held where it is at
    every depth. What cannot be measured, as without a second seed or a common range, is not held.
    """
    import pandas as pd

    from dreamer_study.sql.results import ask

    rows = []
    for expectation in expectations:
        asked = {
            "study": study_id,
            "variant": expectation.variant,
            "against": expectation.against,
            "task": expectation.task,
        }
        if expectation.at is None:
            frame = ask(path, "expected_factor", **asked, metric=expectation.metric)
            check = _check_mean
        else:
            frame = ask(path, "expected_crossing", **asked, goal=expectation.at)
            check = _check_crossing
        by_depth = frame.astype(object).where(frame.notna(), None).to_dict("records")
        checked = [check(expectation, row) for row in by_depth]
        measured = "; ".join(text for text, _ in checked) or "nothing"
        held = bool(checked) and all(is_held for _, is_held in checked)
        rows.append({"expected": _described(expectation), "measured": measured, "held": held})
    return pd.DataFrame(rows, columns=["expected", "measured", "held"])


def _described(expectation: Expectation) -> str:
    rule, value = expectation.rule
    model = expectation.variant
    if expectation.against:
        model += f" against {expectation.against}"
    where = expectation.task
    if expectation.at is not None:
        where += f" at {expectation.at:g}"
    return f"{model}, {where}, {expectation.metric}: {rule.replace('_', ' ')} {value:g}"


def _check_mean(expectation: Expectation, row: dict[str, Any]) -> tuple[str, bool]:
    """Compare a mean factor and its interval with what was expected."""
    from scipy.special import stdtrit

    rule, value = expectation.rule
    factor = row["factor"]
    low = row["low"]
    high = row["high"]
    # An upper bound may show that a factor is below a value, never that it is above one.
    if rule != "holds" and row["bounded"] and row["told_high"] is not None:
        text = f"at most {row['told']:.2f} (to {row['told_high']:.2f})"
        return text, rule == "below" and bool(row["told_high"] < value)
    if factor is None:
        return "no factor", False
    if low is None:
        return f"{factor:.2f}, no interval", False
    if rule == "holds":
        # The 99.9 % interval: factor * exp(-+ t * standard error of the log factor).
        half = stdtrit(row["degrees_of_freedom"], (1 + CERTAIN) / 2) * row["error"]
        low = factor * math.exp(-half)
        high = factor * math.exp(half)
        held = low <= value <= high
    elif rule == "below":
        held = high < value
    else:
        held = low > value
    return f"{factor:.2f} ({low:.2f} to {high:.2f})", bool(held)


def _check_crossing(expectation: Expectation, row: dict[str, Any]) -> tuple[str, bool]:
    """Compare the factor at an accuracy with what was expected."""
    rule, value = expectation.rule
    needed = row["tokens"]
    baseline = row["baseline_tokens"]
    if baseline is None:
        return "the other never reached that", False
    is_reached = needed is not None
    factor = baseline / (needed if is_reached else row["tokens_trained"])
    # Who has an accuracy at the first checkpoint may have had it much earlier: nobody knows.
    bound = row["bound"] if rule == "at_most" else row["baseline_bound"]
    if bound == "at most":
        return f"{factor:.2f}, had by the first checkpoint", False
    held = factor <= value if rule == "at_most" else is_reached and factor >= value
    text = f"{factor:.2f}" if is_reached else f"never reached: at most {factor:.2f}"
    return text, bool(held)
