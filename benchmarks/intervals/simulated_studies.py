"""Simulated studies of two models whose true curves are known, for benchmarks/intervals/coverage.py.

A design is a pair of true accuracy curves and how they are seen: checkpoints, items, noise of training. A study is one
draw of it: items of different difficulty, which both models meet, answered at every checkpoint with a probability that
is the true one but for the noise of training.

SCENARIOS are single designs, easy and hard ones; `population` draws a design at random, as studies may come;
CALIBRATION are the designs on which the method's constants were chosen, of other curves, sizes and random numbers than
both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

Law = Callable[[np.ndarray], np.ndarray]  # accuracy at shares of the training


@dataclass(frozen=True)
class Design:
    """True curves [C] of both models at `tokens` [C]; the standard deviation of training noise at each checkpoint."""

    tokens: np.ndarray
    baseline: np.ndarray
    variant: np.ndarray
    noise: np.ndarray | float
    items: int
    chance: float


def rising(ceiling: float, half: float, exponent: float, speed: float = 1.0, chance: float = 0.1) -> Law:
    """Make an accuracy curve from chance to a ceiling, which is half way up at the share `half` of the training.

    With `speed` 2 the curve needs half of the tokens.
    """
    return lambda t: ceiling - (ceiling - chance) / (1 + (speed * t / half) ** exponent)


def stretched(ceiling: float, half: float, exponent: float, speed: float = 1.0, chance: float = 0.1) -> Law:
    """Compute a curve with equal ends by a stretched exponential, which is flat much sooner."""
    return lambda t: chance + (ceiling - chance) * (1 - 0.5 ** ((speed * t / half) ** exponent))


def bent(ceiling: float, half: float, exponent: float, speed: float = 1.0, chance: float = 0.1) -> Law:
    """Compute a curve with equal ends by a straight line in log tokens, then exactly constant."""
    return lambda t: chance + (ceiling - chance) * np.clip(0.5 + exponent / 4 * np.log(speed * t / half), 0, 1)


def broken(height: float, end: float, start: float = 0.15, speed: float = 1.0) -> Law:
    """Make an accuracy curve: straight in log tokens up to the share `end` of the training, then exactly constant."""
    return lambda t: start + (height - start) * np.minimum(1, np.log(speed * t * 24) / np.log(end * 24))


def dipping(middle: float, best: float, lowest: float) -> Law:
    """Make an accuracy curve: best at the share `middle` of the training, `lowest` at the first of 12 checkpoints."""
    return lambda t: best - (best - lowest) * np.log(t / middle) ** 2 / np.log(12 * middle) ** 2


def design(
    laws: tuple[Law, Law], noise: float = 0.0, checkpoints: int = 12, items: int = 400, chance: float = 0.1
) -> Design:
    """Build a design with evenly spaced checkpoints and equal noise at all of them."""
    share = np.arange(1, checkpoints + 1) / checkpoints
    return Design(share * 1_200_000, laws[0](share), laws[1](share), noise, items, chance)


SCENARIOS = {
    "factor 2, rising to the end": design((rising(0.9, 0.8, 1.3), rising(0.9, 0.8, 1.3, 2))),
    "factor 1, rising to the end": design((rising(0.9, 0.8, 1.3), rising(0.9, 0.8, 1.3))),
    "factor 4, rising to the end": design((rising(0.9, 0.8, 1.3), rising(0.9, 0.8, 1.3, 4))),
    "levelling off": design((rising(0.6, 0.2, 2), rising(0.7, 0.2, 2, 2))),
    "levelling off to one ceiling": design((rising(0.6, 0.2, 2), rising(0.6, 0.2, 2, 2))),
    "best in the middle": design((dipping(0.5, 0.5, 0.2), rising(0.9, 0.6, 1.3))),
    "never reached": design((rising(0.9, 0.8, 1.3), rising(0.45, 0.8, 1.3))),
    "reached at the first checkpoint": design((rising(0.35, 0.8, 1.3), rising(0.9, 0.1, 1.3))),
    "plateau for half the run": design((broken(0.5, 0.5), broken(0.6, 0.5, speed=1.5))),
    "plateau of both at one height": design((broken(0.5, 0.5), broken(0.5, 0.5, speed=2))),
    "one bend, another form": design((broken(0.6, 1.0), broken(0.6, 1.0, start=0.25))),
    "factor 2, training noise 0.03": design((rising(0.9, 0.8, 1.3), rising(0.9, 0.8, 1.3, 2)), 0.03),
    "factor 2, training noise 0.06": design((rising(0.9, 0.8, 1.3), rising(0.9, 0.8, 1.3, 2)), 0.06),
    "levelling off, training noise 0.03": design((rising(0.6, 0.2, 2), rising(0.7, 0.2, 2, 2)), 0.03),
}

CALIBRATION = {
    f"{name}, noise {noise}": design(laws, noise, checkpoints, items, chance)
    for name, laws, checkpoints, items, chance, noises in (
        ("rising 1.6", (rising(0.8, 0.6, 1.6), rising(0.8, 0.6, 1.6, 1.6)), 16, 500, 0.1, (0, 0.015, 0.04)),
        ("rising 3", (stretched(0.9, 1, 1.2), stretched(0.85, 1, 1.2, 3)), 10, 300, 0.1, (0, 0.015, 0.04)),
        ("rising 0.8", (rising(0.7, 0.5, 1.2), rising(0.85, 0.5, 1.2, 0.8)), 20, 800, 0.1, (0, 0.015, 0.04)),
        ("level 1.5", (rising(0.65, 0.25, 2.2), rising(0.72, 0.25, 2.2, 1.5)), 20, 400, 0.1, (0, 0.015, 0.04)),
        ("plateau 1.4", (bent(0.6, 0.25, 2.2), bent(0.68, 0.25, 2.2, 1.4)), 16, 600, 0.1, (0, 0.015, 0.04)),
        ("dipping", (dipping(0.6, 0.55, 0.22), rising(0.9, 0.5, 0.8)), 14, 500, 0.1, (0, 0.015, 0.04)),
        ("only just 1", (rising(0.7, 0.3, 1.8), rising(0.67, 0.3, 1.8, 1.5)), 16, 600, 0.1, (0, 0.015, 0.04)),
        ("just short", (bent(0.6, 0.25, 2.2), bent(0.57, 0.25, 2.2, 2)), 20, 400, 0.1, (0, 0.015, 0.04)),
        ("clear 1.7", (rising(0.9, 1, 2), rising(0.9, 1, 2, 1.7)), 8, 1300, 0.1, (0, 0.01)),
        ("clear 2.5", (rising(0.9, 1.5, 1.5), rising(0.8, 1.5, 1.5, 2.5)), 12, 1300, 0.1, (0, 0.01)),
        ("clear 0.9", (bent(0.8, 0.8, 2.5), bent(0.95, 0.8, 2.5, 0.9)), 6, 1000, 0.1, (0, 0.01)),
        ("clear 1.3", (stretched(0.9, 1.2, 1.5), stretched(0.9, 1.2, 1.5, 1.3)), 12, 1000, 0.1, (0, 0.01)),
    )
    for noise in noises
}


def population(random: np.random.Generator) -> Design:
    """Draw a design as studies may come; the draw was fixed before any coverage was looked at.

    The variant is faster by a factor between 1/2 and 4 (log-uniform) on the same form of curve, which is one of three;
    its ceiling differs by 0.03 (normal). Half the rise lies between 15 % and 100 % of the training. 12 to 24
    checkpoints, 200 to 1,319 items, no chance or one of ten or four. Training noise from a standard deviation of
    0.005 (less than items explain) to 0.06 (the demo's checkpoints lie 0.03 to 0.064 from their curves) where
    accuracy is 0.5, less towards 0 and 1.
    """
    between = lambda low, high: math.exp(random.uniform(math.log(low), math.log(high)))  # noqa: E731
    checkpoints, items = int(random.integers(12, 25)), round(between(200, 1319))
    chance = float(random.choice([0.0, 0.1, 0.25]))
    speed, ceiling = between(0.5, 4), random.uniform(0.4, 0.95)
    other = min(0.98, max(chance + 0.1, ceiling + random.normal(0, 0.03)))
    form = (rising, stretched, bent)[random.integers(3)]
    half, exponent, noise = between(0.15, 1), random.uniform(1, 2.5), between(0.005, 0.06)
    laws = form(ceiling, half, exponent, chance=chance), form(other, half, exponent, speed, chance)
    drawn = design(laws, 0, checkpoints, items, chance)
    shape = [2 * np.sqrt(curve * (1 - curve)) for curve in (drawn.baseline, drawn.variant)]
    return Design(drawn.tokens, drawn.baseline, drawn.variant, noise * np.stack(shape), items, chance)


def scores(of: Design, random: np.random.Generator) -> np.ndarray:
    """Simulate one study: scores [I, 2 C] of both models. Half of what decides an answer is the item's own."""
    true = np.stack([of.baseline, of.variant])
    level = np.clip(true + of.noise * random.standard_normal(true.shape), 0.001, 0.999).ravel()
    ability, luck = random.standard_normal((of.items, 1)), random.standard_normal((of.items, level.size))
    return (math.sqrt(0.5) * ability + math.sqrt(0.5) * luck < ndtri(level)).astype(float)
