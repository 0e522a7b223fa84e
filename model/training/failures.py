"""When a training must not go on: its failures in words, and the rule for a loss that has left its course."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

NORMAL = 1.4826
"""The standard deviation of normally distributed values over their median absolute deviation."""

LEAST_DEVIATION = 0.01
"""In nats: where the loss hardly moves, a tiny change is no spike."""


class TrainingFailed(RuntimeError):
    """The training itself went wrong; the text is one line."""


def spike_limit(losses: Sequence[float], deviations: float) -> float:
    """The loss that is a spike after `losses`: their median plus so many of their standard deviations.

    The deviation is estimated by the median absolute deviation, which a few wild values do not move, and is taken to
    be at least LEAST_DEVIATION.
    """
    middle = statistics.median(losses)
    spread = NORMAL * statistics.median(abs(loss - middle) for loss in losses)
    return middle + deviations * max(spread, LEAST_DEVIATION)


def has_spiked(losses: Sequence[float], deviations: float, steps: int) -> bool:
    """Whether each of the last `steps` losses is a spike after those before them; `deviations` 0: never asked.

    As many steps as are judged must come before them, or there is nothing to judge by.
    """
    before, last = losses[:-steps], losses[-steps:]
    return bool(deviations) and len(before) >= steps and min(last) > spike_limit(before, deviations)
