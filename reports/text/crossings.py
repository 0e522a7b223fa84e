"""Put factors by the paper's rule into words.

They are of the tokens to the baseline's best accuracy, and have bounds and doubts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.text.names import goal_name, model_name
from dreamer_study.reports.text.numbers import as_many, percent, ratio, tokens


def crossing(row: Mapping[str, Any]) -> str:
    """Put a row of `StudyData.efficiency` into words, with its doubts.

    Near chance a study decides nothing. Example: a factor 4.0 (exact) of DR gives "DR reached LA’s
    best average accuracy (32.3%) with 0.25 times as many training tokens: 25B instead of 100B."
    """
    best = (
        f"{row['baseline']}’s best {goal_name(row['task'])}"
        f" ({percent(row.get('baseline_accuracy'))})"
    )
    text = _not_reached(row, best) if row["bound"] == "at most" else _reached(row, best)
    if row.get("near_chance") is True:
        model = f"{model_name(row)} needed fewer or more training tokens than {row['baseline']}"
        text = f"The study cannot tell whether {model}, which is near chance itself. {text}"
    if row.get("baseline_bound") == "at least":
        text += (
            f" {row['baseline']} was best at its very first checkpoint: the ratio may be too low."
        )
    return text


def _reached(row: Mapping[str, Any], best: str) -> str:
    variant = row["variant"]
    baseline = row["baseline"]
    factor = row["factor"]
    had = tokens(row.get("baseline_tokens"))
    needed = tokens(row.get("variant_tokens"))
    if row["bound"] == "at least":
        first = (
            f"{variant} had {best} by its first checkpoint, at {needed} tokens; {baseline} had it"
            f" at {had}"
        )
        if factor <= 1:
            return f"{first}. The checkpoints are too far apart to say which was first."
        return f"{first}: at most {as_many(factor)} training tokens."
    return (
        f"{variant} reached {best} with {as_many(factor)} training tokens: {needed} instead of"
        f" {had}."
    )


def _not_reached(row: Mapping[str, Any], best: str) -> str:
    factor = row["factor"]
    own_best = row.get("own_best")
    trained = row.get("tokens_trained")
    within = "" if pd.isna(trained) else f" within {tokens(trained)} tokens"
    instead = "" if pd.isna(own_best) else f"; its own best is {percent(own_best)}"
    # Within half a per cent of 1 the ratio would be printed as 1.00.
    if factor < 0.995:
        consequence = (
            f"It would need more than {ratio(factor)} times as many training tokens as"
            f" {row['baseline']}."
        )
    elif factor < 1.005:
        consequence = f"It would need more tokens than {row['baseline']}."
    else:
        consequence = "It was trained on too few tokens to say which needs fewer."
    return f"{row['variant']} did not reach {best}{within}{instead}. {consequence}"
