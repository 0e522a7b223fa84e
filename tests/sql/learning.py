"""Models that learn the items of a benchmark at known times, entered with every answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.special import expit

from tests.sql.by_hand import enter_scores

TOKENS = [1e5 * number for number in range(1, 13)]


def enter_models(path: Path, ratios: dict[str, tuple[float, ...]], *, seeds: int = 3) -> Path:
    """Enter models that learn each third of 90 items with a ratio of the tokens of LA."""
    random = np.random.default_rng(3)
    times = np.geomspace(1.5e5, 9e5, 90)
    luck = random.uniform(size=(seeds, len(ratios), 90))
    for seed in range(seeds):
        curves = {}
        for number, (variant, by_third) in enumerate(ratios.items()):
            own = times * np.repeat(by_third, 30)
            chance = {t: expit(5 * np.log(t / own)) for t in TOKENS}
            right = {t: (luck[seed, number] < share).astype(float) for t, share in chance.items()}
            curves[variant] = {"t": right}
        enter_scores(path, curves, seed=seed, chance=0.0)
    return path
