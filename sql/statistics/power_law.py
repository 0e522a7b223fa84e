"""Fit a saturating power law to the checkpoints of one model on one task, and estimate the noise of its training.

    accuracy(tokens) = ceiling - (ceiling - floor) / (1 + (tokens / scale) ^ exponent)

Checkpoints are weighted by their binomial standard errors; the floor lies between 0 and chance. The noise of training
is the scatter around the curve that the items do not explain. docs/statistics.md has the reasons and an example.
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
REPLICATES_AT_ONCE = 200
GAUSS_NEWTON_STEPS = 4


@dataclass(frozen=True)
class ObservedCurve:
    """The checkpoints of one curve [C]: ascending tokens, accuracy and its standard error (NaN: unknown); chance."""

    tokens: np.ndarray
    accuracy: np.ndarray
    stderr: np.ndarray
    chance: float  # NaN: unknown

    @property
    def weights(self) -> np.ndarray:
        """Return the weights of squared distances [C]: an error counts as half the median at least."""
        median = np.median(self.stderr)
        return np.maximum(self.stderr, median / 2) ** -2 if median > 0 else np.ones(len(self.stderr))

    @property
    def top(self) -> float:
        """Return the highest possible accuracy: 1, or 100 for percentages."""
        return 1.0 if self.accuracy.max() <= 1 else 100.0

    @property
    def near_chance(self) -> bool:
        """Return whether the best is within two standard errors of a known chance level, as in data_efficiency."""
        best = self.accuracy.argmax()
        return bool(self.accuracy[best] <= self.chance + 2 * np.nan_to_num(self.stderr[best]))


@dataclass(frozen=True)
class PowerLaw:
    """One fitted curve, or one for each replicate [R]. A curve without scale and exponent is constant, its floor.

    The status is 'fitted', or why there is no curve: 'too few points'; 'near chance'; 'flat', where a power law is no
    better than the mean by an F test. The latter two have the mean as floor and ceiling: no goal above is reached.
    """

    status: str
    floor: np.ndarray | float
    ceiling: np.ndarray | float
    scale: np.ndarray | float = np.nan
    exponent: np.ndarray | float = np.nan

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        """Return the accuracy at token counts [C]: [C], or [R, C]."""
        floor, ceiling, scale, exponent = (
            np.asarray(value)[..., None] for value in (self.floor, self.ceiling, self.scale, self.exponent)
        )
        risen = expit(exponent * (np.log(tokens) - np.log(scale)))
        return floor + (ceiling - floor) * np.nan_to_num(risen)

    @property
    def parameters(self) -> int:
        """Return how many parameters the fit has taken from the checkpoints."""
        return PARAMETERS if self.status == "fitted" else 1


def fit_power_law(points: ObservedCurve) -> PowerLaw:
    """Fit one curve by weighted least squares, starting from the best of a grid."""
    if len(points.tokens) < FEWEST_POINTS:
        return PowerLaw("too few points", np.nan, np.nan)
    mean = float(np.average(points.accuracy, weights=points.weights))
    if points.near_chance:
        return PowerLaw("near chance", mean, mean)
    floors = {0.0, float(np.nan_to_num(points.chance))}
    fits = [_refined(points, _fit_all(points, points.accuracy[None], floor)) for floor in floors]
    fit, flat = min(fits, key=lambda one: _cost(points, one)), PowerLaw("flat", mean, mean)
    cost, freedom = _cost(points, fit), len(points.tokens) - PARAMETERS
    gained = (_cost(points, flat) - cost) / (PARAMETERS - 1)
    needed = f_distribution.isf(SIGNIFICANCE, PARAMETERS - 1, freedom) * cost / freedom
    rounding = 1e-20 * float(points.weights @ points.accuracy**2)
    return fit if gained > max(needed, rounding) else flat


def fit_replicates(points: ObservedCurve, fit: PowerLaw, drawn: np.ndarray, random: np.random.Generator) -> PowerLaw:
    """Fit a curve to each replicate with noise of training; `drawn` [1 + R, C] as in ReplicatedCurve.accuracy.

    Curves of replicates keep the floor of the fit. All are fitted at once, by Gauss-Newton steps from the best of a
    grid.
    """
    accuracy = points.accuracy + drawn[1:] - drawn[0]
    if fit.status != "fitted":
        means = np.average(accuracy, axis=1, weights=points.weights)
        nothing = np.full(len(means), np.nan)
        return PowerLaw(fit.status, means, means, nothing, nothing)
    noise = random.normal(0, training_variance(points, fit, drawn) ** 0.5, accuracy.shape)
    return _fit_all(points, accuracy + noise, fit.floor)


def training_variance(points: ObservedCurve, fit: PowerLaw, drawn: np.ndarray) -> float:
    """Estimate the variance of accuracy between checkpoints that neither the curve nor the items explain.

    `drawn` [1 + R, C] as in ReplicatedCurve.accuracy. The variance is 0 where there are too few checkpoints.
    """
    if len(points.tokens) < FEWEST_POINTS:
        return 0.0
    # The residuals of a least-squares fit are a projection of the errors at the checkpoints, if these are small.
    tangents, weights = _tangents(points, fit), points.weights
    left = np.eye(len(points.tokens)) - tangents @ np.linalg.pinv(weights[:, None] ** 0.5 * tangents) * weights**0.5
    of_items = left @ (drawn[1:] - drawn[0]).T
    distance = points.accuracy - fit(points.tokens)
    freedom = len(points.tokens) - fit.parameters
    return max(0.0, float(distance @ distance - of_items.var(axis=1).sum()) / freedom)


def _tangents(points: ObservedCurve, fit: PowerLaw) -> np.ndarray:
    """Differentiate the curve by each parameter that replicates change: [C, 3], or [C, 1] for a mean."""
    if fit.status != "fitted":
        return np.ones((len(points.tokens), 1))
    return _jacobian(points, fit.ceiling - fit.floor, np.log(fit.scale), np.log(fit.exponent))


def _cost(points: ObservedCurve, fit: PowerLaw) -> float:
    """Return the weighted sum of squared distances from the curve."""
    return float(points.weights @ (points.accuracy - fit(points.tokens)) ** 2)


def _refined(points: ObservedCurve, start: PowerLaw) -> PowerLaw:
    """Find the least-squares curve near the start, with a floor between 0 and chance."""
    low, high = _bounds(points)
    chance = float(np.nan_to_num(points.chance))
    # A parameter has to have room between its bounds.
    lowest = np.array([0.0, chance, *low])
    highest = np.array([max(chance, 1e-9), points.top, *high])
    guess = [start.floor[0], start.ceiling[0], np.log(start.scale[0]), np.log(start.exponent[0])]

    def distances(parameters: np.ndarray) -> np.ndarray:
        floor, ceiling, log_scale, log_exponent = parameters
        curve = PowerLaw("fitted", floor, ceiling, np.exp(log_scale), np.exp(log_exponent))
        return (curve(points.tokens) - points.accuracy) * points.weights**0.5

    found = least_squares(
        distances, np.clip(guess, lowest, highest), bounds=(lowest, highest), x_scale="jac", xtol=1e-12
    )
    floor, ceiling, log_scale, log_exponent = found.x
    return PowerLaw("fitted", float(floor), float(ceiling), float(np.exp(log_scale)), float(np.exp(log_exponent)))


def _fit_all(points: ObservedCurve, accuracy: np.ndarray, floor: float) -> PowerLaw:
    """Fit curves with this floor to accuracies [R, C]: the best of a grid, improved by Gauss-Newton steps.

    For a given floor, scale and exponent the rise is a linear regression, so the grid has two axes.
    """
    low, high = _bounds(points)
    axes = [np.arange(start, end, GRID_STEP) for start, end in zip(low, high, strict=True)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes)])  # [2, G]
    shapes = _risen(points, *grid[..., None])  # [G, C]
    squares, above = shapes**2 @ points.weights, points.top - floor
    values = accuracy - floor
    parameters = np.empty((3, len(values)))  # rise, log scale, log exponent
    for part in np.array_split(np.arange(len(values)), -(-len(values) // REPLICATES_AT_ONCE)):
        products = (values[part] * points.weights) @ shapes.T
        rises = np.clip(products / squares, 0, above)
        best = (rises * (rises * squares - 2 * products)).argmin(axis=1)
        parameters[0, part], parameters[1:, part] = rises[np.arange(len(part)), best], grid[:, best]

    lowest, highest = np.array([0, *low])[:, None], np.array([above, *high])[:, None]
    for _ in range(GAUSS_NEWTON_STEPS):
        rise, log_scale, log_exponent = parameters[..., None]
        jacobian = _jacobian(points, rise, log_scale, log_exponent)
        distance = values - rise * jacobian[..., 0]
        weighted = jacobian * points.weights[:, None]
        normal = np.einsum("rci,rcj->rij", weighted, jacobian)
        # A little damping, where two parameters have one effect.
        normal += 1e-6 * np.einsum("rii->ri", normal)[:, :, None] * np.eye(3) + 1e-12 * np.eye(3)
        step = np.linalg.solve(normal, np.einsum("rci,rc->ri", weighted, distance)[..., None])[..., 0]
        moved = np.clip(parameters + step.T, lowest, highest)
        distance_then = values - moved[0][:, None] * _risen(points, *moved[1:, :, None])
        better = distance_then**2 @ points.weights < distance**2 @ points.weights
        parameters[:, better] = moved[:, better]
    rise, log_scale, log_exponent = parameters
    return PowerLaw("fitted", np.full(len(rise), floor), floor + rise, np.exp(log_scale), np.exp(log_exponent))


def _risen(points: ObservedCurve, log_scale: np.ndarray, log_exponent: np.ndarray) -> np.ndarray:
    """Return the rise at every checkpoint, between 0 and 1: [..., C]."""
    return expit(np.exp(log_exponent) * (np.log(points.tokens) - log_scale))


def _jacobian(points: ObservedCurve, rise: np.ndarray, log_scale: np.ndarray, log_exponent: np.ndarray) -> np.ndarray:
    """Differentiate curves by rise, log scale and log exponent at every checkpoint: [..., C, 3]."""
    shape = _risen(points, log_scale, log_exponent)
    slope = rise * np.exp(log_exponent) * shape * (1 - shape)
    return np.stack([shape, -slope, slope * (np.log(points.tokens) - log_scale)], axis=-1)


def _bounds(points: ObservedCurve) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest logarithms of scale and exponent."""
    ends = points.tokens[0] / BEYOND, points.tokens[-1] * BEYOND
    return np.log([ends[0], EXPONENTS[0]]), np.log([ends[1], EXPONENTS[1]])
