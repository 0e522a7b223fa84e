"""Decide when a training has failed: its exception, and the rule for spikes of the loss."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

NORMAL = 1.4826
"""Ratio of standard deviation to median absolute deviation of a normal distribution."""

LEAST_DEVIATION = 0.01
"""Smallest deviation assumed, in nats: where the loss hardly moves, a tiny change is no spike."""


class TrainingFailed(RuntimeError):
    """The training has failed, with good input; the text is one line."""


def spike_limit(losses: Sequence[float], deviations: float) -> float:
    """Return the loss above which a step is a spike: the median of `losses` plus `deviations` standard deviations.

    The standard deviation is estimated from the median absolute deviation, which outliers do not move, and is at least
    LEAST_DEVIATION. Example: losses 1, 2, 3, 4, 100 and 2 deviations give 3 + 2 * 1.4826 * 1.
    """
    middle = statistics.median(losses)
    spread = NORMAL * statistics.median(abs(loss - middle) for loss in losses)
    return middle + deviations * max(spread, LEAST_DEVIATION)


def has_spiked(losses: Sequence[float], deviations: float, steps: int) -> bool:
    """Tell whether all of the newest `steps` losses are spikes, compared with the losses before them.

    Never with `deviations` 0, nor while fewer than `steps` losses come before.
    """
    before, newest = losses[:-steps], losses[-steps:]
    return bool(deviations) and len(before) >= steps and min(newest) > spike_limit(before, deviations)
