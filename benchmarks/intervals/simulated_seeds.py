"""Simulated studies of models trained with several seeds, for benchmarks/intervals/seed_coverage.py.

Seeds of a model differ in when they learn: by a shift of the whole curve in log tokens, normal or heavy-tailed, or by
one skill, half of the rise, that clicks late. A study is one draw of seeds and items; every item has a difficulty that
all runs meet, and luck that is a run's own, half of it for the whole training and half for each checkpoint.

SCENARIOS are single designs, `population` draws one at random, as studies may come.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from benchmarks.intervals.simulated_studies import Law, bent, rising, stretched

FORMS = ("normal", "heavy tails", "late skill")
OF_ITEM, OF_RUN, OF_CHECKPOINT = math.sqrt(0.5), 0.5, 0.5  # parts of what decides an answer; squares add up to 1
LOSS_SPREAD = 0.6  # standard deviation of the items' log losses


@dataclass(frozen=True)
class SeedEffect:
    """How far the seeds of a model lie apart, as the standard deviation of log tokens, and in which form."""

    spread: float
    form: str = "normal"


@dataclass(frozen=True)
class SeededDesign:
    """Baseline, variant and another variant: their laws and seed effects; `tokens` [C], seeds of each, items."""

    laws: tuple[Law, ...]
    effects: tuple[SeedEffect, ...]
    tokens: np.ndarray
    seeds: int
    items: int
    loss: bool = False

    def levels(self, model: int, seeds: int, random: np.random.Generator) -> np.ndarray:
        """Draw the true values of seeds of a model at every checkpoint [N, C]."""
        law, effect, share = self.laws[model], self.effects[model], self.tokens / self.tokens[-1]
        if effect.form == "late skill":
            delays = 2 * effect.spread * random.exponential(size=(seeds, 1))
            return (law(share) + law(share * np.exp(-delays))) / 2
        shifts = random.standard_normal((seeds, 1))
        if effect.form == "heavy tails":
            shifts = random.standard_t(3, (seeds, 1)) / math.sqrt(3)
        return law(share * np.exp(-effect.spread * shifts))

    def expected(self, model: int) -> np.ndarray:
        """Average the true values over many seeds [C]."""
        return self.levels(model, 20_000, np.random.default_rng(model)).mean(axis=0)


def falling(lowest: float, half: float, exponent: float, speed: float = 1.0, highest: float = 1.5) -> Law:
    """Compute a loss that falls from the highest to the lowest bits per byte, half way at the share `half`."""
    return lambda t: lowest + (highest - lowest) / (1 + (speed * t / half) ** exponent)


def seed_scores(of: SeededDesign, random: np.random.Generator) -> np.ndarray:
    """Draw one study: scores [I, M, N, C] of items, models, seeds and checkpoints; more is better."""
    models, checkpoints = len(of.laws), len(of.tokens)
    levels = np.stack([of.levels(model, of.seeds, random) for model in range(models)])
    fate = OF_ITEM * random.standard_normal((of.items, 1, 1, 1))
    fate = fate + OF_RUN * random.standard_normal((of.items, models, of.seeds, 1))
    fate = fate + OF_CHECKPOINT * random.standard_normal((of.items, models, of.seeds, checkpoints))
    if of.loss:
        return -levels * np.exp(LOSS_SPREAD * fate - LOSS_SPREAD**2 / 2)
    return (fate < ndtri(np.clip(levels, 0.001, 0.999))).astype(float)


def design(
    laws: tuple[Law, Law], spreads: tuple[float, ...], form: str, seeds: int, items: int = 400, loss: bool = False
) -> SeededDesign:
    """Build a design of twelve evenly spaced checkpoints; the other variant is the variant, or has another spread."""
    effects = tuple(SeedEffect(spread, form) for spread in (*spreads, spreads[1])[:3])
    return SeededDesign((*laws, laws[1]), effects, np.arange(1, 13) * 100_000.0, seeds, items, loss)


LAWS = {
    "factor 1.5, rising": (rising(0.9, 0.6, 1.5), rising(0.9, 0.6, 1.5, 1.5)),
    "factor 1, rising": (rising(0.9, 0.6, 1.5), rising(0.9, 0.6, 1.5)),
    "levelling off": (rising(0.9, 0.25, 2), rising(0.93, 0.25, 2, 1.4)),
    "crossing": (rising(0.95, 0.5, 1.2), rising(0.8, 0.35, 2)),
    "short common range": (rising(0.4, 0.6, 1.5), rising(0.9, 0.35, 1.5)),
    "loss, factor 1.5": (falling(0.5, 0.4, 1.2), falling(0.5, 0.4, 1.2, 1.5)),
}

SCENARIOS = {
    f"{law}, {form} {'/'.join(map(str, spreads))}, {items} items, {seeds} seeds": design(
        LAWS[law], spreads, form, seeds, items, "loss" in law
    )
    for seeds in (3, 4, 5, 8)
    for law, form, spreads, items in (
        ("factor 1.5, rising", "normal", (0.2, 0.2), 400),
        ("factor 1.5, rising", "heavy tails", (0.3, 0.3), 400),
        ("factor 1.5, rising", "late skill", (0.3, 0.15), 400),
        ("factor 1.5, rising", "late skill", (0.15, 0.3), 1600),
        ("factor 1, rising", "late skill", (0.3, 0.3), 200),
        ("levelling off", "late skill", (0.3, 0.15), 400),
        ("crossing", "heavy tails", (0.15, 0.3), 400),
        ("short common range", "normal", (0.3, 0.15), 200),
        ("loss, factor 1.5", "late skill", (0.3, 0.15), 400),
        ("factor 1.5, rising", "normal", (0.1, 0.3, 0.1), 800),
        ("factor 1.5, rising", "normal", (0.3, 0.3, 0.1), 800),
    )
}


def population(random: np.random.Generator, seeds: int) -> SeededDesign:
    """Draw a design as studies may come; the draw was fixed before any coverage was looked at.

    The variant is faster by a factor between 1/2 and 3 (log-uniform) on the same form of curve, one of three or a loss;
    its ceiling differs by 0.03 (normal). 8 to 20 checkpoints, 200 to 1,600 items. Seeds lie 0.1 to 0.3 apart in log
    tokens (log-uniform, each model by itself), in one of three forms.
    """
    between = lambda low, high: math.exp(random.uniform(math.log(low), math.log(high)))  # noqa: E731
    speed, ceiling, half, exponent = (
        between(0.5, 3),
        random.uniform(0.5, 0.95),
        between(0.2, 0.8),
        random.uniform(1, 2.5),
    )
    other, loss = min(0.98, ceiling + random.normal(0, 0.03)), bool(random.random() < 0.25)
    form = (rising, stretched, bent)[random.integers(3)]
    laws = form(ceiling, half, exponent), form(other, half, exponent, speed)
    if loss:
        laws = falling(1 - ceiling, half, exponent), falling(1 - other, half, exponent, speed)
    effects = tuple(SeedEffect(between(0.1, 0.3), FORMS[random.integers(3)]) for _ in range(3))
    tokens = np.arange(1, random.integers(8, 21) + 1) * 100_000.0
    return SeededDesign((*laws, laws[1]), effects, tokens, seeds, round(between(200, 1600)), loss)
