"""Compare the expected effects of a study with its results.

Such known effects check an instrument. Every study file may hold expectations, so this module
imports slow packages (pandas, scipy) only when it checks them.
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
Positive = Annotated[float, Field(gt=0)]
RULES = ("ratio_holds", "ratio_below", "ratio_above", "ratio_at_most", "ratio_at_least")
AT_A_SCORE = ("ratio_at_most", "ratio_at_least")
# Rules of a factor, the baseline's tokens over the variant's, by the rule that says the same of a
# ratio: one over the value. They are refused, as their direction has turned.
OF_FACTORS = {
    "holds": "ratio_holds",
    "below": "ratio_above",
    "above": "ratio_below",
    "at_most": "ratio_at_least",
    "at_least": "ratio_at_most",
}


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Expectation:
    """What a ratio of tokens, or the ratio at one accuracy, is expected to be.

    A ratio is the tokens of `variant` over those of `against` (view token_ratios). `ratio_holds`:
    the 99.9 % interval holds this value. `ratio_below`: the 95 % interval lies below this value,
    and the variant reached the other's best. `ratio_above`: the 95 % interval, or a one-sided
    bound, lies above this value, or the lower bound `at_least` does where the variant did not reach
    the other's best. `at` with `ratio_at_most` or `ratio_at_least`: the ratio at this accuracy; a
    variant that never reaches the accuracy counts with all tokens that it was trained on, where the
    ratio is to be high.
    `against` is a variant, by default the study's baseline; `task` a benchmark or 'average'.
    """

    variant: str
    """Variant whose ratio is expected."""
    against: str | None = None
    """Variant that `variant` is compared with; null: the study's baseline."""
    task: str = "average"
    """Benchmark, 'average' or 'validation'."""
    metric: Literal["accuracy", "loss"] = "accuracy"
    """Curves that are compared: accuracy or loss."""
    ratio_holds: Positive | None = None
    """The 99.9 % interval of the ratio holds this value."""
    ratio_below: Positive | None = None
    """The 95 % interval lies below this value, and the variant reached the other's best."""
    ratio_above: Positive | None = None
    """The 95 % interval lies above this value; where the variant did not reach the other's best,
    the lower bound `at_least` does.
    """
    at: Annotated[float, Field(gt=0, le=1)] | None = None
    """Accuracy of `ratio_at_most` and `ratio_at_least`, between 0 and 1."""
    ratio_at_most: Positive | None = None
    """The ratio at the accuracy `at` is at most this value."""
    ratio_at_least: Positive | None = None
    """The ratio at the accuracy `at` is at least this value."""

    @model_validator(mode="before")
    @classmethod
    def _direction_has_turned(cls, given: Any) -> Any:
        """Refuse the rules of factors: the nearest key would be the reverse."""
        settings = getattr(given, "kwargs", given)
        for rule, of_ratio in OF_FACTORS.items():
            if isinstance(settings, dict) and rule in settings:
                raise ValueError(
                    f"{rule!r} is a rule of factors, whose direction is the opposite; write"
                    f" `{of_ratio}: 1/x` in place of `{rule}: x`"
                )
        return given

    @model_validator(mode="after")
    def _one_rule(self) -> Expectation:
        rules = [name for name in RULES if getattr(self, name) is not None]
        has_accuracy = self.at is not None
        if len(rules) != 1 or has_accuracy != (rules[0] in AT_A_SCORE):
            raise ValueError(
                "give one of ratio_holds, ratio_below and ratio_above, or `at` with one of"
                " ratio_at_most and ratio_at_least"
            )
        if has_accuracy and self.metric != "accuracy":
            raise ValueError("`at` is an accuracy, so leave out `metric`")
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

    Returns one row for each expectation: `expected`, `measured` (by depth) and `held`. An
    expectation holds if it holds at every depth. If it cannot be measured, for example with one
    seed or without a common range, it does not hold.
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
            frame = ask(path, "expected_ratio", **asked, metric=expectation.metric)
            check = _check_ratio
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


def _check_ratio(expectation: Expectation, row: dict[str, Any]) -> tuple[str, bool]:
    """Compare a ratio and its interval with what was expected."""
    rule, value = expectation.rule
    if rule == "ratio_holds":
        return _check_holds(row, value)
    if rule == "ratio_above":
        return _check_above(row, value)
    if row["reached"] is False:
        return f"{_told(row)}, but the other's best was not reached", False
    return _told(row), row["high"] is not None and bool(row["high"] < value)


def _check_above(row: dict[str, Any], value: float) -> tuple[str, bool]:
    """Tell whether the interval, or a lower bound, lies above a value.

    Where the variant did not reach the other's best, the lower bound there counts as well.
    """
    is_above = row["low"] is not None and bool(row["low"] > value)
    if is_above or row["reached"] or row["at_least_low"] is None:
        return _told(row), is_above
    text = f"{_told(row)}; to the other's best at least {row['at_least']:.2f}"
    return f"{text} (from {row['at_least_low']:.2f})", bool(row["at_least_low"] > value)


def _told(row: dict[str, Any]) -> str:
    """Say a ratio and its interval, or the one-sided bound in its place."""
    low = row["low"]
    high = row["high"]
    if row["ratio"] is None:
        bounds = [f"at least {low:.2f}" if low is not None else ""]
        bounds.append(f"at most {high:.2f}" if high is not None else "")
        return " and ".join(filter(None, bounds)) or "no ratio"
    if low is None or high is None:
        return f"{row['ratio']:.2f}, no interval"
    return f"{row['ratio']:.2f} ({low:.2f} to {high:.2f})"


def _check_holds(row: dict[str, Any], value: float) -> tuple[str, bool]:
    """Tell whether the 99.9 % interval, ratio * exp(-+ t * standard error), holds a value."""
    from scipy.special import stdtrit

    if row["ratio"] is None:
        return "no ratio", False
    if row["error"] is None:
        return f"{row['ratio']:.2f}, no interval", False
    half = stdtrit(row["degrees_of_freedom"], (1 + CERTAIN) / 2) * row["error"]
    low = row["ratio"] * math.exp(-half)
    high = row["ratio"] * math.exp(half)
    return f"{row['ratio']:.2f} ({low:.2f} to {high:.2f})", bool(low <= value <= high)


def _check_crossing(expectation: Expectation, row: dict[str, Any]) -> tuple[str, bool]:
    """Compare the ratio at an accuracy with what was expected."""
    rule, value = expectation.rule
    needed = row["tokens"]
    baseline = row["baseline_tokens"]
    if baseline is None:
        return "the other never reached that", False
    is_reached = needed is not None
    ratio = (needed if is_reached else row["tokens_trained"]) / baseline
    # Who has an accuracy at the first checkpoint may have had it much earlier: nobody knows.
    bound = row["bound"] if rule == "ratio_at_least" else row["baseline_bound"]
    if bound == "at most":
        return f"{ratio:.2f}, had by the first checkpoint", False
    held = ratio >= value if rule == "ratio_at_least" else is_reached and ratio <= value
    text = f"{ratio:.2f}" if is_reached else f"never reached: at least {ratio:.2f}"
    return text, bool(held)
