"""Draw studies of one kind each: models that are equal, that end on a plateau, or that decay.

Beside `simulated_studies.population`, which draws studies as they may come, these hold one thing
fixed that an interval may fail at. All were fixed before any of their coverage was looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.intervals.simulated_studies import (
    Design,
    Law,
    bent,
    between,
    falling,
    population,
    rising,
    spread_and_form,
    stretched,
)

SPEED_OF_DECAYING = 1.5  # of the variant: it takes 0.667 times as many tokens


def equal(random: np.random.Generator, seeds: int) -> Design:
    """Draw two models of the same law and the same spread: the ratio is 1."""
    of = population(random, seeds)
    return replace(
        of,
        laws=(of.laws[0], of.laws[0]),
        spreads=(of.spreads[0], of.spreads[0]),
        forms=(of.forms[0], of.forms[0]),
    )


def plateau(random: np.random.Generator, seeds: int) -> Design:
    """Draw a variant that ends on a plateau well below the baseline's best.

    Its ceiling is lower by 0.1 to 0.3, its speed differs by a factor between 1/2 and 2, and both
    models are half way up after a tenth to three tenths of the training.
    """
    ceiling = random.uniform(0.7, 0.95)
    other = ceiling - random.uniform(0.1, 0.3)
    half = between(random, 0.1, 0.3)
    exponent = random.uniform(1.5, 2.5)
    speed = between(random, 0.5, 2)
    laws, loss = _laws(random, (ceiling, other), half, exponent, speed)
    return _design(random, seeds, laws, loss)


def decay_along(random: np.random.Generator, seeds: int) -> Design:
    """Draw runs of equal lengths whose rates decay, read along one run of each seed.

    The worse model's best is at its end, fully decayed. The better model has this score while its
    own rate still decays: a run that ends there would have it with fewer tokens.
    """
    return _decaying(random, seeds, 1.0)


def decay_at_ends(random: np.random.Generator, seeds: int) -> Design:
    """Draw runs whose rates decay, and whose lengths are chosen so that both end at one quality.

    The length of the variant's is off by up to 2 %, as it comes of measurements.
    """
    return _decaying(random, seeds, random.uniform(0.98, 1.02) / SPEED_OF_DECAYING)


def _decaying(random: np.random.Generator, seeds: int, length: float) -> Design:
    """Draw models that rise to their ends; a decay is worth twice the tokens.

    Both models have one spread, so that means over their seeds are as far apart as their laws.
    """
    ceiling = random.uniform(0.5, 0.95)
    half = between(random, 0.8, 1.6)
    exponent = random.uniform(1, 1.5)
    laws, loss = _laws(random, (ceiling, ceiling), half, exponent, SPEED_OF_DECAYING)
    of = _design(random, seeds, laws, loss)
    return replace(
        of,
        spreads=(of.spreads[0], of.spreads[0]),
        forms=(of.forms[0], of.forms[0]),
        lengths=(1.0, length),
        decay=math.log(2),
    )


def _laws(
    random: np.random.Generator,
    ceilings: tuple[float, float],
    half: float,
    exponent: float,
    speed: float,
) -> tuple[tuple[Law, Law], bool]:
    """Make the laws of baseline and variant, of one of three forms or, of a quarter, losses."""
    baseline, variant = ceilings
    if random.random() < 0.25:
        lowest = falling(1 - baseline, half, exponent)
        return (lowest, falling(1 - variant, half, exponent, speed)), True
    form = (rising, stretched, bent)[random.integers(3)]
    return (form(baseline, half, exponent), form(variant, half, exponent, speed)), False


def _design(random: np.random.Generator, seeds: int, laws: tuple[Law, Law], loss: bool) -> Design:
    """Draw the rest of a design as the population has it."""
    spreads, forms = zip(*(spread_and_form(random) for _ in laws), strict=True)
    checkpoints = int(random.integers(8, 21))
    items = round(between(random, 200, 1600))
    return Design(laws, spreads, forms, checkpoints, seeds, items, loss)


DESIGNS: dict[str, Callable[[np.random.Generator, int], Design]] = {
    "population": population,
    "equal": equal,
    "plateau": plateau,
    "decay-at-ends": decay_at_ends,
    "decay-along": decay_along,
}
