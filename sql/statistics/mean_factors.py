"""Compute mean factors, a study's second number: token ratios over all scores in common.

                        1      high
    log factor  =  ------------ integral [log t_baseline(s) - log t_variant(s)] ds
                    high - low    low

with t(s), the tokens at which a curve first has the score s, and the range from the higher of both
starts to the lower of both bests. What lies low in the range, before the rate decays, weighs in
this mean most; so the answer of a study is `token_ratios`, and this says where a model is ahead.

Letters of shapes: R replicates (resampled curves, or the one curve as observed), T targets.
"""

from __future__ import annotations

import numpy as np

from dreamer_study.sql.statistics.curves import Curves, ends_of

# Targets: the middles of this number of equal parts of the range that both curves cover. The view
# factor_by_target has the same number, as 25 and 26: change both.
PARTS = 25


def covered_range(baseline: Curves, variant: Curves) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores that both curves cover, from [R] and to [R]; NaN where there are none."""
    start = np.maximum(baseline.start, variant.start)
    return ends_of(start, np.minimum(baseline.end, variant.end))


def log_mean_factors(baseline: Curves, variant: Curves) -> np.ndarray:
    """Compute log(tokens of the baseline / tokens of the variant) over what both cover [R]."""
    low, high = covered_range(baseline, variant)
    return baseline.mean_log_tokens(low, high) - variant.mean_log_tokens(low, high)


def log_target_factors(baseline: Curves, variant: Curves) -> np.ndarray:
    """Compute the log factors at the targets [R, T].

    Targets move with the range that both curves cover, so that every resampled pair has them.
    """
    low, high = covered_range(baseline, variant)
    shares = (np.arange(PARTS) + 0.5) / PARTS
    targets = low[:, None] + (high - low)[:, None] * shares  # [R, T]
    return baseline.crossings(targets) - variant.crossings(targets)
