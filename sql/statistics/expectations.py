"""Compare what a study was expected to show with what it shows: known effects, by which an
instrument is checked.

Study files hold expectations, so that what takes long to import (pandas, scipy) is imported where
they are checked.
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

# of an interval that is to hold a value: one of 95 % fails on one machine in twenty
CERTAIN = 0.999
RULES = ("holds", "below", "above", "at_most", "at_least")
Positive = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Expectation:
    """What a mean factor is expected to be, or the factor at an accuracy: tokens of `against` over
    those of `variant`.

    `holds`: the 99.9 % interval holds this value. `below`, `above`: the 95 % interval lies on that
    side of this value; that of the bound where the variant never reached much of the other's range:
    an upper bound is above nothing.
    `at` with `at_most` or `at_least`: the factor at this accuracy; a variant that never reaches the
    accuracy counts with all tokens that it was trained on, where the factor is to be low. `against`
    is a variant, by default the study's baseline; `task` a benchmark or 'average'.
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
        if len(rules) != 1 or (self.at is None) == (rules[0] in ("at_most", "at_least")):
            raise ValueError(
                "give one of holds, below and above, or `at` with one of at_most and at_least"
            )
        if self.at is not None and self.metric != "accuracy":
            raise ValueError("`at` is an accuracy; leave out `metric`")
        return self

    @property
    def rule(self) -> tuple[str, float]:
        """The name of the rule and its value."""
        return next(
            (name, getattr(self, name)) for name in RULES if getattr(self, name) is not None
        )


def check_expectations(
    path: Path | str, study_id: str, expectations: Sequence[Expectation]
) -> pd.DataFrame:
    """Measure each expectation on the results of a study: one row each of expected, measured (by
    depth), held.

    An expectation is held where it is at every depth. What cannot be measured, as without a second
    seed or a common range, is not held.
    """
    import pandas as pd

    from dreamer_study.sql.results import ask

    rows = []
    for each in expectations:
        values = {
            "study": study_id,
            "variant": each.variant,
            "against": each.against,
            "task": each.task,
        }
        if each.at is None:
            found = ask(path, "expected_factor", **values, metric=each.metric)
        else:
            found = ask(path, "expected_crossing", **values, goal=each.at)
        check = _mean if each.at is None else _crossing
        checked = [
            check(each, row)
            for row in found.astype(object).where(found.notna(), None).to_dict("records")
        ]
        measured = "; ".join(words for words, _ in checked) or "nothing"
        held = bool(checked) and all(one for _, one in checked)
        rows.append({"expected": _described(each), "measured": measured, "held": held})
    return pd.DataFrame(rows, columns=["expected", "measured", "held"])


def _described(each: Expectation) -> str:
    rule, value = each.rule
    against = f" against {each.against}" if each.against else ""
    where = each.task if each.at is None else f"{each.task} at {each.at:g}"
    return f"{each.variant}{against}, {where}, {each.metric}: {rule.replace('_', ' ')} {value:g}"


def _mean(each: Expectation, row: dict[str, Any]) -> tuple[str, bool]:
    """Compare a mean factor and its interval with what was expected."""
    from scipy.special import stdtrit

    rule, value = each.rule
    # at most so much is above nothing
    if rule != "holds" and row["bounded"] and row["told_high"] is not None:
        words = f"at most {row['told']:.2f} (to {row['told_high']:.2f})"
        return words, rule == "below" and bool(row["told_high"] < value)
    factor, low, high = row["factor"], row["low"], row["high"]
    if low is None:
        return ("no factor" if factor is None else f"{factor:.2f}, no interval"), False
    if rule == "holds":
        half = stdtrit(row["degrees_of_freedom"], (1 + CERTAIN) / 2) * row["error"]
        low, high = factor * math.exp(-half), factor * math.exp(half)
    held = {"holds": low <= value <= high, "below": high < value, "above": low > value}[rule]
    return f"{factor:.2f} ({low:.2f} to {high:.2f})", bool(held)


def _crossing(each: Expectation, row: dict[str, Any]) -> tuple[str, bool]:
    """Compare the factor at an accuracy with what was expected."""
    needed, baseline = row["tokens"], row["baseline_tokens"]
    if baseline is None:
        return "the other never reached that", False
    never = needed is None
    factor = baseline / (row["tokens_trained"] if never else needed)
    rule, value = each.rule
    # how much earlier nobody knows
    if (row["bound"] if rule == "at_most" else row["baseline_bound"]) == "at most":
        return f"{factor:.2f}, had by the first checkpoint", False
    held = factor <= value if rule == "at_most" else not never and factor >= value
    return f"{'never reached: at most ' if never else ''}{factor:.2f}", bool(held)
