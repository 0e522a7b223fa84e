"""Eq. 3: biases that keep the experts of a router level, without a loss term."""

from __future__ import annotations

import torch
from torch import Tensor


def balance_step(counts: Tensor) -> Tensor:
    """sign(median(N) - N) for the selection counts N [E], in float32.

    For an even number of experts the median is the mean of the two middle counts: torch's own takes the lower one,
    so that the signs would not cancel and the biases would drift together.
    """
    ordered = counts.sort().values
    last = len(counts) - 1
    doubled_median = ordered[last // 2] + ordered[(last + 1) // 2]
    return torch.sign(doubled_median - 2 * counts).float()
