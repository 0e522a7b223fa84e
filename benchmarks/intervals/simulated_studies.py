"""Simulate studies of models trained with several seeds, whose true curves are known, for
`intervals.coverage`.

Seeds of a model differ in when they learn: by a shift of the whole curve in log tokens, normal or
heavy-tailed, or by one skill, half of the rise, that clicks late. A study is one draw of seeds and
items; every item has a difficulty that all runs meet, and luck that is a run's own, half of it for
the whole training and half for each checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

Law = Callable[[np.ndarray], np.ndarray]  # accuracy, or loss, at shares of the training
FORMS = ("normal", "heavy tails", "late skill")  # in which the seeds of a model differ
# parts of what decides an answer; squares add up to 1
OF_ITEM, OF_RUN, OF_CHECKPOINT = math.sqrt(0.5), 0.5, 0.5
LOSS_SPREAD = 0.6  # standard deviation of the items' log losses
CHANCE = 0.1
DECAY_FROM = 0.8  # the share of a run after which its learning rate decays, where it does
PARTS_OF_SEEDS = 2_000  # of the distribution of seeds, in an expected curve


@dataclass(frozen=True)
class Design:
    """Baseline and variant: their laws, and how far their seeds lie apart.

    `spreads` are standard deviations of log tokens. `lengths` are the tokens of the models' runs.
    Where `decay` is more than 0, the learning rate decays over the last fifth of each run: there
    every token counts for more, so that a run that has ended is as good as an undecayed one with
    exp(decay) times the tokens.
    """

    laws: tuple[Law, Law]
    spreads: tuple[float, float]
    forms: tuple[str, str]
    checkpoints: int
    seeds: int
    items: int
    loss: bool = False
    lengths: tuple[float, float] = (1.0, 1.0)
    decay: float = 0.0

    @property
    def share(self) -> np.ndarray:
        """Return the shares of a run at which its checkpoints stand [C]."""
        return np.arange(1, self.checkpoints + 1) / self.checkpoints

    def tokens(self, model: int) -> np.ndarray:
        """Return the tokens of a model's checkpoints [C]."""
        return self.share * self.lengths[model]

    def levels(self, model: int, random: np.random.Generator) -> np.ndarray:
        """Draw the true values of the seeds of a model at every checkpoint [N, C]."""
        form = self.forms[model]
        if form == "late skill":
            units = random.exponential(size=(self.seeds, 1))
        elif form == "heavy tails":
            units = random.standard_t(3, (self.seeds, 1)) / math.sqrt(3)
        else:
            units = random.standard_normal((self.seeds, 1))
        return self._values(model, self._effective_tokens(model), units)

    def expected(self, model: int) -> np.ndarray:
        """Average the true scores over all seeds that there may be [C]; more is better."""
        return self._expected(model, self._effective_tokens(model))

    def expected_when_decayed(self, model: int) -> np.ndarray:
        """Average the true scores at the ends of runs as long as each checkpoint's tokens [C]."""
        return self._expected(model, self.tokens(model) * math.exp(self.decay))

    def _effective_tokens(self, model: int) -> np.ndarray:
        """Return the tokens without a decay that a run's checkpoints are worth [C]."""
        decayed = np.clip((self.share - DECAY_FROM) / (1 - DECAY_FROM), 0, 1)
        return self.tokens(model) * np.exp(self.decay * decayed)

    def _expected(self, model: int, tokens: np.ndarray) -> np.ndarray:
        """Average over the middles of many equal parts of the distribution of seeds."""
        shares = (np.arange(PARTS_OF_SEEDS) + 0.5)[:, None] / PARTS_OF_SEEDS
        form = self.forms[model]
        if form == "late skill":
            units = -np.log1p(-shares)
        elif form == "heavy tails":
            units = stdtrit(3, shares) / math.sqrt(3)
        else:
            units = ndtri(shares)
        return self.sign * self._values(model, tokens, units).mean(axis=0)

    def _values(self, model: int, tokens: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return the true values of seeds that lie a number of units off [N, C]."""
        law = self.laws[model]
        spread = self.spreads[model]
        if self.forms[model] == "late skill":
            return (law(tokens) + law(tokens * np.exp(-2 * spread * units))) / 2
        return law(tokens * np.exp(-spread * units))

    @property
    def sign(self) -> int:
        """Return what makes a value a score of which more is better."""
        return -1 if self.loss else 1

    @property
    def noise_floor(self) -> float:
        """Return the score that guessing may reach: chance and two standard errors."""
        if self.loss:
            return -math.inf
        return CHANCE + 2 * math.sqrt(CHANCE * (1 - CHANCE) / self.items)


def rising(ceiling: float, half: float, exponent: float, speed: float = 1.0) -> Law:
    """Make an accuracy from chance to a ceiling, half way up at the share `half`; with `speed` 2 in
    half the tokens."""
    return lambda t: ceiling - (ceiling - CHANCE) / (1 + (speed * t / half) ** exponent)


def stretched(ceiling: float, half: float, exponent: float, speed: float = 1.0) -> Law:
    """Make an accuracy with equal ends by a stretched exponential, which is flat much sooner."""
    return lambda t: CHANCE + (ceiling - CHANCE) * (1 - 0.5 ** ((speed * t / half) ** exponent))


def bent(ceiling: float, half: float, exponent: float, speed: float = 1.0) -> Law:
    """Make an accuracy with equal ends by a straight line in log tokens, then exactly constant."""
    return lambda t: (
        CHANCE + (ceiling - CHANCE) * np.clip(0.5 + exponent / 4 * np.log(speed * t / half), 0, 1)
    )


def falling(lowest: float, half: float, exponent: float, speed: float = 1.0) -> Law:
    """Make a loss that falls from 1.5 to the lowest bits per byte, half way at the share `half`."""
    return lambda t: lowest + (1.5 - lowest) / (1 + (speed * t / half) ** exponent)


def population(random: np.random.Generator, seeds: int) -> Design:
    """Draw a design as studies may come; the draw was fixed before any coverage was looked at.

    The variant is faster by a factor between 1/2 and 3 (log-uniform) on the same form of curve, one
    of three or a loss; its ceiling differs by 0.03 (normal). 8 to 20 checkpoints, 200 to 1,600
    items. Seeds lie 0.1 to 0.3 apart in log tokens (log-uniform, each model by itself), in one of
    three forms.
    """

    speed = between(random, 0.5, 3)
    half = between(random, 0.2, 0.8)
    ceiling, exponent = random.uniform(0.5, 0.95), random.uniform(1, 2.5)
    other, loss = min(0.98, ceiling + random.normal(0, 0.03)), bool(random.random() < 0.25)
    form = (rising, stretched, bent)[random.integers(3)]
    laws = form(ceiling, half, exponent), form(other, half, exponent, speed)
    if loss:
        laws = falling(1 - ceiling, half, exponent), falling(1 - other, half, exponent, speed)
    spreads, forms = zip(*(spread_and_form(random) for _ in laws), strict=True)
    checkpoints = int(random.integers(8, 21))
    items = round(between(random, 200, 1600))
    return Design(laws, spreads, forms, checkpoints, seeds, items, loss)


def between(random: np.random.Generator, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform."""
    return math.exp(random.uniform(math.log(low), math.log(high)))


def spread_and_form(random: np.random.Generator) -> tuple[float, str]:
    """Draw how far the seeds of a model lie apart, and the form in which they do."""
    return between(random, 0.1, 0.3), FORMS[random.integers(3)]


def scores(
    of: Design,
    random: np.random.Generator,
    *,
    items: np.ndarray | None = None,
    luck: np.ndarray | None = None,
) -> np.ndarray:
    """Draw one study: scores [I, 2, N, C] of items, models, seeds and checkpoints; more is better.

    Studies that share items are given standard normal `items` [I, 1, 1, 1]. `luck` [I, 2, 1, 1] of
    the models with the items takes the place of half of the variance of the runs' own.
    """
    levels = np.stack([of.levels(model, random) for model in range(2)])
    if items is None:
        items = random.standard_normal((of.items, 1, 1, 1))
    of_run = OF_RUN * random.standard_normal((of.items, 2, of.seeds, 1))
    if luck is not None:
        of_run = luck + math.sqrt(0.5) * of_run
    fate = OF_ITEM * items + of_run
    fate = fate + OF_CHECKPOINT * random.standard_normal((of.items, 2, of.seeds, of.checkpoints))
    if of.loss:
        return of.sign * levels * np.exp(LOSS_SPREAD * fate - LOSS_SPREAD**2 / 2)
    return (fate < ndtri(np.clip(levels, 0.001, 0.999))).astype(float)
