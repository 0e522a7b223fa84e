"""Compute the learning rate of each optimiser step."""

from __future__ import annotations

import math

from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.recipe import RateDecay


def scheduled_rate(config: TrainingConfig, step: int, tokens: int) -> float:
    """Return the learning rate of optimiser step 1, 2, ..., after `tokens` of earlier steps.

    Linear warm-up, then constant (Table 3), or a decay that ends at `config.tokens`: at 0, or at a
    share of the peak. The warm-up ends at warmup_steps * batch_tokens tokens: a little later where
    rows are padded.
    """
    warmed_up = config.learning_rate * min(1.0, step / max(1, config.warmup_steps))
    schedule = config.schedule
    if schedule == "constant":
        return warmed_up
    # a training that ends within its warm-up has no decay, and nothing is divided by 0
    start = min(config.warmup_steps * config.batch_tokens, config.tokens - 1)
    if isinstance(schedule, RateDecay):
        start = max(start, round((1.0 - schedule.decay) * config.tokens))
        start = min(start, config.tokens - 1)
    done = min(max((tokens - start) / (config.tokens - start), 0.0), 1.0)  # share of the decay
    if isinstance(schedule, RateDecay):
        left = schedule.to + (1.0 - schedule.to) * _left(schedule.shape, done)
    else:
        left = _left(schedule, done)
    return warmed_up * left


def _left(shape: str, done: float) -> float:
    """Return the share of a decay to 0 that is left once a share of it is done."""
    of_shape = {
        "linear": 1.0 - done,
        "cosine": 0.5 + 0.5 * math.cos(math.pi * done),
        "sqrt": 1.0 - math.sqrt(done),
    }
    return of_shape[shape]
