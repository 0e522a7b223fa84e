"""How often the 95 % intervals of the data-efficiency factors contain the true factor, on simulated studies.

    python benchmarks/coverage.py [--studies 200] [--items 400] [--scenario NAME]

A scenario is a pair of true accuracy curves; its true factor is what the rules make of these. A study is one draw:
items of different difficulty, which both models meet, answered at every checkpoint with the true probability. An
interval contains a true limit when it is open on that side: down to 0 for 'at most', up to infinity for 'at least'.

The rules: `first` and `interpolated` are those of factor_intervals, `best drawn` is the first with the baseline's best
taken anew in each draw, as a plain bootstrap would, and so `best drawn i` the second; `fitted` is
data_efficiency_fitted. For each rule the share of studies in percent and, in brackets, the median of high / low.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from sql.bootstrap import Curve, Factors, crossing_factors, factor_interval, interval, possible_goals, resample
from sql.curves import Fit, Points, fit_curve, fit_draws

TOKENS = np.arange(1, 13) * 100_000.0
END = TOKENS[-1]
CHANCE = 0.1
REPLICATES = 400
SHARE = 0.95  # of LA's rise, as in data_efficiency_fitted.sql

Law = Callable[[np.ndarray], np.ndarray]  # accuracy at token counts


def rising(ceiling: float, half: float, exponent: float, speed: float = 1.0) -> Law:
    """From chance to a ceiling, half of it at the share `half` of the training; `speed` times as fast in tokens."""
    return lambda t: ceiling - (ceiling - CHANCE) / (1 + (speed * t / END / half) ** exponent)


def broken(height: float, end: float, start: float = 0.15, speed: float = 1.0) -> Law:
    """Straight in log tokens up to the share `end` of the training, then exactly constant."""
    return lambda t: start + (height - start) * np.minimum(1, np.log(speed * t / 5e4) / np.log(end * END / 5e4))


def dipping(t: np.ndarray) -> np.ndarray:
    """Best in the middle of the training."""
    return 0.5 - 0.3 * np.log(t / 6e5) ** 2 / np.log(6) ** 2


# Name: the curves of LA and DR, and how noisy training itself is at each checkpoint.
SCENARIOS: dict[str, tuple[Law, Law, float]] = {
    "factor 2, rising to the end": (rising(0.9, 0.8, 1.3), rising(0.9, 0.8, 1.3, 2), 0),
    "factor 1, rising to the end": (rising(0.9, 0.8, 1.3), rising(0.9, 0.8, 1.3), 0),
    "factor 4, rising to the end": (rising(0.9, 0.8, 1.3), rising(0.9, 0.8, 1.3, 4), 0),
    "levelling off": (rising(0.6, 0.2, 2), rising(0.7, 0.2, 2, 2), 0),
    "levelling off to one ceiling": (rising(0.6, 0.2, 2), rising(0.6, 0.2, 2, 2), 0),
    "best in the middle": (dipping, rising(0.9, 0.6, 1.3), 0),
    "never reached": (rising(0.9, 0.8, 1.3), rising(0.45, 0.8, 1.3), 0),
    "reached at the first checkpoint": (rising(0.35, 0.8, 1.3), rising(0.9, 0.1, 1.3), 0),
    "plateau for half the run": (broken(0.5, 0.5), broken(0.6, 0.5, speed=1.5), 0),
    "plateau of both at one height": (broken(0.5, 0.5), broken(0.5, 0.5, speed=2), 0),
    "one bend, another form": (broken(0.6, 1.0), broken(0.6, 1.0, start=0.25), 0),
    "factor 2, training noise 0.03": (rising(0.9, 0.8, 1.3), rising(0.9, 0.8, 1.3, 2), 0.03),
}
RULES = ("first", "interpolated", "best drawn", "best drawn i", "fitted")


def answers(curve: np.ndarray, ability: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Scores [I, C] with the given mean at each checkpoint; half of what decides an answer is the item's own."""
    luck = random.standard_normal((len(ability), len(curve)))
    return (ability[:, None] * math.sqrt(0.5) + luck * math.sqrt(0.5) < ndtri(curve)).astype(float)


def truth(curves: tuple[np.ndarray, np.ndarray]) -> dict[str, Factors]:
    """The factor of the true curves by each rule."""
    variant, best = Curve(TOKENS, curves[1][None]), curves[0].argmax()
    first, interpolated = (
        crossing_factors(TOKENS[best], curves[0][[best]], variant, interpolated=rule) for rule in (False, True)
    )
    fits = [fit_curve(points(curve, 10**9)) for curve in curves]
    return {
        "first": first,
        "interpolated": interpolated,
        "best drawn": first,
        "best drawn i": interpolated,
        "fitted": fitted_factors(*fits),
    }


def intervals(scores: np.ndarray, random: np.random.Generator) -> dict[str, tuple[float, float]]:
    """The intervals of one study, of the scores [I, 2 C] of both models."""
    means = np.vstack([scores.mean(axis=0), resample(scores, REPLICATES, random)])
    both = np.split(means, 2, axis=1)
    baseline, variant = (Curve(TOKENS, accuracy) for accuracy in both)
    drawn, best = Curve(TOKENS, both[1][1:]), both[0][1:].max(axis=1)
    places, goals = TOKENS[both[0][1:].argmax(axis=1)], possible_goals(baseline)
    fits = []
    for accuracy in both:
        observed = points(accuracy[0], len(scores))
        fits.append(fit_draws(observed, fit_curve(observed), accuracy, random))
    return {
        "first": factor_interval(goals, variant, interpolated=False)[:2],
        "interpolated": factor_interval(goals, variant, interpolated=True)[:2],
        "best drawn": interval(crossing_factors(places, best, drawn, interpolated=False)),
        "best drawn i": interval(crossing_factors(places, best, drawn, interpolated=True)),
        "fitted": interval(fitted_factors(*fits)),
    }


def points(accuracy: np.ndarray, items: int) -> Points:
    """Checkpoints with the standard errors that lm-eval gives them."""
    return Points(TOKENS, accuracy, np.sqrt(accuracy * (1 - accuracy) / (items - 1)), CHANCE)


def fitted_factors(baseline: Fit, variant: Fit) -> Factors:
    """As efficiency_fitted.sql, for every draw."""
    goal = baseline.floor + SHARE * (baseline(TOKENS)[..., -1] - baseline.floor)
    needed, spent = np.maximum(TOKENS[0], tokens_to(goal, baseline)), tokens_to(goal, variant)
    return Factors(needed / np.clip(spent, TOKENS[0], END), at_most=spent > END, at_least=spent < TOKENS[0])


def tokens_to(goal: np.ndarray, fit: Fit) -> np.ndarray:
    """As curve_tokens.sql."""
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = fit.scale * ((goal - fit.floor) / (fit.ceiling - goal)) ** (1 / np.asarray(fit.exponent))
    return np.where(goal >= fit.ceiling, np.inf, np.where(goal <= fit.floor, 0, crossing))


def contains(ends: tuple[float, float], true: Factors) -> bool:
    """Whether an interval contains the true factor, or is open where the truth is a limit."""
    low, high = ends
    if true.at_most.all() or true.at_least.all():
        return low == 0 if true.at_most.all() else high == math.inf
    return bool(low * (1 - 1e-9) <= true.value <= high * (1 + 1e-9))


def measure(name: str, studies: int, items: int) -> str:
    """One row of the table."""
    *laws, noise = SCENARIOS[name]
    curves = tuple(law(TOKENS) for law in laws)
    true, random = truth(curves), np.random.default_rng(zlib.crc32(name.encode()))
    inside: dict[str, list[bool]] = {rule: [] for rule in RULES}
    widths: dict[str, list[float]] = {rule: [] for rule in RULES}
    for _ in range(studies):
        ability = random.standard_normal(items)
        noisy = [np.clip(curve + random.normal(0, noise, len(curve)), 0.001, 0.999) for curve in curves]
        scores = np.hstack([answers(curve, ability, random) for curve in noisy])
        for rule, (low, high) in intervals(scores, random).items():
            inside[rule].append(contains((low, high), true[rule]))
            widths[rule].append(high / low if low else math.inf)
    first, fitted = (
        f"{'at most ' * bool(f.at_most.all())}{'at least ' * bool(f.at_least.all())}{float(np.squeeze(f.value)):.2f}"
        for f in (true["first"], true["fitted"])
    )
    found = (f"{100 * np.mean(inside[rule]):.1f} ({np.median(widths[rule]):.2f})" for rule in RULES)
    return " | ".join(("", name, first, *found, fitted, "")).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--scenario", choices=SCENARIOS)
    asked = parser.parse_args()
    print(f"| scenario | true factor | {' | '.join(RULES)} | true fitted factor |\n{'|---' * (3 + len(RULES))}|")
    for name in [asked.scenario] if asked.scenario else SCENARIOS:
        print(measure(name, asked.studies, asked.items), flush=True)


if __name__ == "__main__":
    main()
