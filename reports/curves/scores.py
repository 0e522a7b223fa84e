"""What a result file of an evaluation says: a model, a checkpoint, and scores of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dreamer_study.reports.curves.kinds import LOSS, kind_of

ACCURACY = "accuracy"
# Those that a results file lists (sql/internal/tables/metrics.sql).
LISTED = {
    **dict.fromkeys(("acc", "accuracy", "math_verify", "exact_match", "em", "pass@1"), ACCURACY),
    **dict.fromkeys(("acc_norm", "f1"), ACCURACY),
    **dict.fromkeys(("gold_bits_per_byte", "bits_per_byte"), LOSS),
    **dict.fromkeys(
        ("perplexity", "token_perplexity", "word_perplexity", "byte_perplexity"), "perplexity"
    ),
}


@dataclass(frozen=True)
class Score:
    """A value of a task in a metric, with its filter; `kind` as in a results file, or unknown."""

    task: str
    metric: str
    filter: str
    value: float
    stderr: float | None = None
    items: int | None = None
    kind: str | None = None


@dataclass(frozen=True)
class Report:
    """The scores of a file.

    `model` names the model and its revision where the file has them. `fields` are variant, seed,
    tokens or step as far as the file itself says them.
    """

    file: Path
    model: str
    fields: dict[str, Any]
    scores: Sequence[Score]


def kind_of_metric(metric: str) -> str | None:
    """Return the kind of a metric: accuracy, loss, perplexity, or None where nobody knows."""
    if metric in LISTED:
        return LISTED[metric]
    kind = kind_of(metric)
    return ACCURACY if kind == "score" else kind


def number_or_none(value: object) -> float | None:
    """Return a number; None for a text such as N/A, and for true and false."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def count_or_none(value: object) -> int | None:
    """Return a number of items; None where a harness writes -1 for all of them."""
    number = number_or_none(value)
    return int(number) if number is not None and number >= 1 else None
