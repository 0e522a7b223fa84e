"""A smooth curve through the checkpoints of one model on one task, and the noise of training that they show.

The curve is the saturating power law

    accuracy(tokens) = ceiling - (ceiling - floor) / (1 + (tokens / scale) ^ exponent):

far on, the distance from the ceiling falls as tokens ^ -exponent; early, accuracy leaves the floor as tokens ^
exponent; in log tokens it is the logistic curve. The plain law, ceiling - a * tokens ^ -b, has no floor and missed the
demo's checkpoints by twice as much (mean square); (1 + tokens / scale) ^ -b fits as well as ours, but b runs away
there, for training on a small world levels off faster than any of its powers. The floor lies between 0 and chance: a
model that does not answer at all is below chance.

Checkpoints are weighted by their binomial standard errors. They scatter around the curve by more than their items
explain, because training itself goes up and down from one checkpoint to the next: `training_variance` is that excess.
It is independent noise at every checkpoint as far as the curve is right; what the curve misses counts as noise too.

Where no curve can be had, `status` says why: 'too few points', 'near chance' (as in data_efficiency: the best
checkpoint is within two standard errors of it), 'flat' (a curve is no better than the mean, by an F test). The last two
have the mean as floor and ceiling, so that a goal above it is never reached.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import expit
from scipy.stats import f as f_distribution

PARAMETERS = 4
FEWEST_POINTS = PARAMETERS + 1
SIGNIFICANCE = 0.05
EXPONENTS = (0.2, 8.0)  # flatter is a straight line in log tokens, steeper a jump between two checkpoints
BEYOND = 30.0  # how many times outside the checkpoints half the rise may lie
GRID_STEP = 0.15  # in the logarithms of scale and exponent
DRAWS_AT_ONCE = 200
STEPS = 4


@dataclass(frozen=True)
class Points:
    """The checkpoints of one curve [C]: tokens ascending, accuracy and its standard error (NaN: unknown); chance."""

    tokens: np.ndarray
    accuracy: np.ndarray
    stderr: np.ndarray
    chance: float  # NaN: unknown

    @property
    def weights(self) -> np.ndarray:
        """Of squared distances [C]. An error of 0 (all items wrong) counts as half the usual; unknown ones as equal."""
        usual = np.median(self.stderr)
        return np.maximum(self.stderr, usual / 2) ** -2 if usual > 0 else np.ones(len(self.stderr))

    @property
    def top(self) -> float:
        """The highest accuracy there is: 1, or 100 for percentages."""
        return 1.0 if self.accuracy.max() <= 1 else 100.0

    @property
    def near_chance(self) -> bool:
        """As in data_efficiency, where an unknown chance is none to be near to."""
        best = self.accuracy.argmax()
        return bool(self.accuracy[best] <= self.chance + 2 * np.nan_to_num(self.stderr[best]))


@dataclass(frozen=True)
class Fit:
    """One curve, or one for each draw [R]. Without scale and exponent it is its floor everywhere."""

    status: str
    floor: np.ndarray | float
    ceiling: np.ndarray | float
    scale: np.ndarray | float = np.nan
    exponent: np.ndarray | float = np.nan

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        """Accuracy at token counts [C]: [C], or [R, C]."""
        floor, ceiling, scale, exponent = (
            np.asarray(value)[..., None] for value in (self.floor, self.ceiling, self.scale, self.exponent)
        )
        risen = expit(exponent * (np.log(tokens) - np.log(scale)))
        return floor + (ceiling - floor) * np.nan_to_num(risen)


def fit_curve(points: Points) -> Fit:
    """The curve of one model, by weighted least squares from the best of a grid of starts."""
    if len(points.tokens) < FEWEST_POINTS:
        return Fit("too few points", np.nan, np.nan)
    mean = float(np.average(points.accuracy, weights=points.weights))
    if points.near_chance:
        return Fit("near chance", mean, mean)
    floors = {0.0, float(np.nan_to_num(points.chance))}
    fits = [_refined(points, _fit_all(points, points.accuracy[None], floor)) for floor in floors]
    fit, flat = min(fits, key=lambda one: _cost(points, one)), Fit("flat", mean, mean)
    cost, freedom = _cost(points, fit), len(points.tokens) - PARAMETERS
    gained = (_cost(points, flat) - cost) / (PARAMETERS - 1)
    needed = f_distribution.isf(SIGNIFICANCE, PARAMETERS - 1, freedom) * cost / freedom
    rounding = 1e-20 * float(points.weights @ points.accuracy**2)
    return fit if gained > max(needed, rounding) else flat


def fit_draws(points: Points, fit: Fit, drawn: np.ndarray, random: np.random.Generator) -> Fit:
    """A curve for each draw, with the noise of training: `drawn` [1 + R, C] is the accuracy as observed and in each.

    Curves of the draws keep the floor, and are the best of a grid improved by Gauss-Newton steps, all at once.
    """
    accuracy = points.accuracy + drawn[1:] - drawn[0]
    if fit.status != "fitted":
        means = np.average(accuracy, axis=1, weights=points.weights)
        nothing = np.full(len(means), np.nan)
        return Fit(fit.status, means, means, nothing, nothing)
    noise = random.normal(0, training_variance(points, fit, drawn) ** 0.5, accuracy.shape)
    return _fit_all(points, accuracy + noise, fit.floor)


def training_variance(points: Points, fit: Fit, drawn: np.ndarray) -> float:
    """The variance of accuracy between checkpoints that neither the curve nor the items explain.

    `drawn` [1 + R, C] is the accuracy as observed and in each draw of the items. 0 where there are too few checkpoints.
    """
    if len(points.tokens) < FEWEST_POINTS:
        return 0.0
    # What a least-squares fit leaves of small errors at the checkpoints is a projection of these.
    tangents, weights = _tangents(points, fit), points.weights
    left = np.eye(len(points.tokens)) - tangents @ np.linalg.pinv(weights[:, None] ** 0.5 * tangents) * weights**0.5
    of_items = left @ (drawn[1:] - drawn[0]).T
    distance = points.accuracy - fit(points.tokens)
    freedom = len(points.tokens) - (PARAMETERS if fit.status == "fitted" else 1)
    return max(0.0, float(distance @ distance - of_items.var(axis=1).sum()) / freedom)


def _tangents(points: Points, fit: Fit) -> np.ndarray:
    """How the curve moves at the checkpoints with each parameter that draws change: [C, 3], or [C, 1] of a mean."""
    if fit.status != "fitted":
        return np.ones((len(points.tokens), 1))
    log_scale = np.log(fit.scale)
    risen = _risen(points, log_scale, np.log(fit.exponent))
    slope = (fit.ceiling - fit.floor) * risen * (1 - risen)
    return np.stack([risen, -slope * fit.exponent, slope * (np.log(points.tokens) - log_scale)], axis=1)


def _cost(points: Points, fit: Fit) -> float:
    return float(points.weights @ (points.accuracy - fit(points.tokens)) ** 2)


def _refined(points: Points, start: Fit) -> Fit:
    """The least-squares curve near the start, its floor between 0 and chance."""
    low, high = _bounds(points)
    chance = float(np.nan_to_num(points.chance))
    # A parameter has to have room between its bounds.
    lowest = np.array([0.0, chance, *low])
    highest = np.array([max(chance, 1e-9), points.top, *high])
    guess = [start.floor[0], start.ceiling[0], np.log(start.scale[0]), np.log(start.exponent[0])]

    def distances(parameters: np.ndarray) -> np.ndarray:
        floor, ceiling, log_scale, log_exponent = parameters
        curve = Fit("fitted", floor, ceiling, np.exp(log_scale), np.exp(log_exponent))
        return (curve(points.tokens) - points.accuracy) * points.weights**0.5

    found = least_squares(
        distances, np.clip(guess, lowest, highest), bounds=(lowest, highest), x_scale="jac", xtol=1e-12
    )
    floor, ceiling, log_scale, log_exponent = found.x
    return Fit("fitted", float(floor), float(ceiling), float(np.exp(log_scale)), float(np.exp(log_exponent)))


def _fit_all(points: Points, accuracy: np.ndarray, floor: float) -> Fit:
    """Curves of this floor for many sets of values [R, C] at once: the best of a grid, improved by Gauss-Newton steps.

    With floor, scale and exponent given the rise is a linear regression, so the grid has two axes.
    """
    low, high = _bounds(points)
    axes = [np.arange(start, end, GRID_STEP) for start, end in zip(low, high, strict=True)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes)])  # [2, G]
    shapes = _risen(points, *grid[..., None])  # [G, C]
    squares, above = shapes**2 @ points.weights, points.top - floor
    values = accuracy - floor
    parameters = np.empty((3, len(values)))  # rise, log scale, log exponent
    for part in np.array_split(np.arange(len(values)), -(-len(values) // DRAWS_AT_ONCE)):
        products = (values[part] * points.weights) @ shapes.T
        rises = np.clip(products / squares, 0, above)
        best = (rises * (rises * squares - 2 * products)).argmin(axis=1)
        parameters[0, part], parameters[1:, part] = rises[np.arange(len(part)), best], grid[:, best]

    lowest, highest = np.array([0, *low])[:, None], np.array([above, *high])[:, None]
    for _ in range(STEPS):
        rise, log_scale, log_exponent = parameters[..., None]
        shape, exponent = _risen(points, log_scale, log_exponent), np.exp(log_exponent)
        slope = rise * exponent * shape * (1 - shape)
        jacobian = np.stack([shape, -slope, slope * (np.log(points.tokens) - log_scale)], axis=-1)  # [R, C, 3]
        distance = values - rise * shape
        weighted = jacobian * points.weights[:, None]
        normal = np.einsum("rci,rcj->rij", weighted, jacobian)
        # A little damping, for where two parameters do the same.
        normal += 1e-6 * np.einsum("rii->ri", normal)[:, :, None] * np.eye(3) + 1e-12 * np.eye(3)
        step = np.linalg.solve(normal, np.einsum("rci,rc->ri", weighted, distance)[..., None])[..., 0]
        moved = np.clip(parameters + step.T, lowest, highest)
        distance_then = values - moved[0][:, None] * _risen(points, *moved[1:, :, None])
        better = distance_then**2 @ points.weights < distance**2 @ points.weights
        parameters[:, better] = moved[:, better]
    rise, log_scale, log_exponent = parameters
    return Fit("fitted", np.full(len(rise), floor), floor + rise, np.exp(log_scale), np.exp(log_exponent))


def _risen(points: Points, log_scale: np.ndarray, log_exponent: np.ndarray) -> np.ndarray:
    """The share of the rise at every checkpoint: [..., C]."""
    return expit(np.exp(log_exponent) * (np.log(points.tokens) - log_scale))


def _bounds(points: Points) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest logarithms of scale and exponent."""
    ends = points.tokens[0] / BEYOND, points.tokens[-1] * BEYOND
    return np.log([ends[0], EXPONENTS[0]]), np.log([ends[1], EXPONENTS[1]])
