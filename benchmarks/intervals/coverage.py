"""Count how often the 95 % intervals of the data-efficiency factors hold the true factor, on simulated studies.

    python -m benchmarks.intervals.coverage [--studies 200] [--set population|scenarios|calibration]
                                               [--scenario NAME] [--seed N]

`population` draws every study from another design, N decides which; `scenarios` draws all of them from one (see
simulated_studies.py).
The true factor of a rule is what it makes of the true curves, that is, of the means over items and trainings. An
interval contains a true limit when it is open on that side: down to 0 for 'at most', up to infinity for 'at least'.

The columns: `first` and `interpolated` are the rules of factor_intervals, `items only` and `items only i` the same
without noise of training, `plain i` the interpolated with the baseline's best taken anew in each draw instead. They
hold the share of studies in percent and, in brackets, the median of high / low. `found` is the median over the studies
of the factor that data_efficiency would show. `at an end` is how often the first rule's interval ends in the true
factor itself, or is open where that is a limit.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from benchmarks.intervals.simulated_studies import CALIBRATION, SCENARIOS, Design, population, scores
from sql.statistics.bootstrap import ReplicatedCurve, resample
from sql.statistics.factor_intervals import (
    Factors,
    crossing_factors,
    factor_interval,
    grid_interval,
    possible_goals,
    spanning,
    with_training_noise,
)

REPLICATES = 400
RULES = ("first", "interpolated", "items only", "items only i", "plain i")


def truth(of: Design) -> dict[str, Factors]:
    """Compute the factor of the true curves by each rule."""
    first, interpolated = (observed_factor(of.tokens, of.baseline, of.variant, interpolated=i) for i in (False, True))
    return dict(zip(RULES, (first, interpolated, first, interpolated, interpolated), strict=True))


def observed_factor(tokens: np.ndarray, baseline: np.ndarray, variant: np.ndarray, *, interpolated: bool) -> Factors:
    """Compute the factor of two curves [C] as the views data_efficiency and data_efficiency_interpolated do."""
    best = baseline.argmax()
    return crossing_factors(
        tokens[best], baseline[[best]], ReplicatedCurve(tokens, variant[None]), interpolated=interpolated
    )


def intervals(of: Design, random: np.random.Generator) -> tuple[dict[str, tuple[float, float]], float]:
    """Simulate one study; return its interval by each rule, and the factor found by the first rule."""
    answered = scores(of, random)
    means = np.vstack([answered.mean(axis=0), resample(answered, REPLICATES, random)])
    curves = [ReplicatedCurve(of.tokens, accuracy) for accuracy in np.split(means, 2, axis=1)]
    noisy = [with_training_noise(curve, random) for curve in curves]
    found = {}
    for names, (baseline, variant) in ((RULES[:2], noisy), (RULES[2:4], curves)):
        goals = possible_goals(baseline)
        for name, interpolated in zip(names, (False, True), strict=True):
            found[name] = factor_interval(goals, variant, interpolated=interpolated)[:2]
    found["first"] = spanning(found["first"], grid_interval(*curves))
    places = of.tokens[noisy[0].scores[1:].argmax(axis=1)]
    drawn = ReplicatedCurve(of.tokens, noisy[1].scores[1:])
    plain = crossing_factors(places, noisy[0].scores[1:].max(axis=1), drawn, interpolated=True)
    found["plain i"] = percentiles(plain)
    first = observed_factor(of.tokens, *(curve.scores[0] for curve in curves), interpolated=False)
    return found, first.value.item()


def percentiles(factors: Factors) -> tuple[float, float]:
    """Return the 95 % interval of draws: 0 and infinity where the interval is open."""
    low = np.quantile(np.where(factors.at_most, 0.0, factors.value), 0.025, method="lower")
    high = np.quantile(np.where(factors.at_least, np.inf, factors.value), 0.975, method="higher")
    return float(low), float(high)


def bound(true: Factors) -> str:
    """Name the bound as data_efficiency does."""
    return "at most" if true.at_most.all() else "at least" if true.at_least.all() else "exact"


def contains(ends: tuple[float, float], true: Factors) -> bool:
    """Tell whether an interval contains the true factor, or is open where the truth is a limit."""
    low, high = ends
    if bound(true) != "exact":
        return low == 0 if bound(true) == "at most" else high == math.inf
    return bool(low * (1 - 1e-9) <= true.value <= high * (1 + 1e-9))


class Tally:
    """A row of the table: by rule, whether each study's interval has the truth in it, and how wide it is."""

    def __init__(self) -> None:
        self._inside: dict[str, list[bool]] = defaultdict(list)
        self._widths: dict[str, list[float]] = defaultdict(list)
        self._found: list[float] = []
        self._at_an_end: list[bool] = []

    def add(self, rule: str, ends: tuple[float, float], true: Factors) -> None:
        self._inside[rule].append(contains(ends, true))
        self._widths[rule].append(ends[1] / ends[0] if ends[0] else math.inf)
        if rule == "first":
            at_end = np.isclose(ends, true.value, rtol=1e-9).any() or bound(true) != "exact"
            self._at_an_end.append(contains(ends, true) and at_end)

    def add_found(self, found: float) -> None:
        self._found.append(found)

    def row(self, name: str, true: str = "") -> str:
        cells = [
            f"{100 * np.mean(inside):.1f} ({np.median(self._widths[rule]):.2f})" if inside else ""
            for rule, inside in ((rule, self._inside[rule]) for rule in RULES)
        ]
        found = f"{np.median(self._found):.2f}" if self._found else ""
        at_an_end = f"{100 * np.mean(self._at_an_end):.1f}" if self._at_an_end else ""
        return " | ".join(("", name, true, *cells, at_an_end, found, "")).strip()


def of_one_design(name: str, of: Design, studies: int) -> str:
    """Simulate many studies of one design; return a row of the table."""
    true, random, tally = truth(of), np.random.default_rng(zlib.crc32(name.encode())), Tally()
    for _ in range(studies):
        found, factor = intervals(of, random)
        tally.add_found(factor)
        for rule, ends in found.items():
            tally.add(rule, ends, true[rule])
    limit = "" if bound(true["first"]) == "exact" else f"{bound(true['first'])} "
    return tally.row(name, f"{limit}{np.squeeze(true['first'].value):.2f}")


def of_the_population(studies: int, seed: int) -> Iterable[str]:
    """Simulate a study of each of many designs; yield a row for all, then rows by the bound of the true factor."""
    random, tallies = np.random.default_rng(seed), defaultdict(Tally)
    counts: dict[str, int] = defaultdict(int)
    for _ in range(studies):
        of = population(random)
        true = truth(of)
        counts[bound(true["first"])] += 1
        for rule, ends in intervals(of, random)[0].items():
            tallies["all"].add(rule, ends, true[rule])
            tallies[bound(true[rule])].add(rule, ends, true[rule])
    yield tallies["all"].row(f"all {studies}")
    for kind in ("exact", "at most", "at least"):
        yield tallies[kind].row(f"true factor {kind}: {counts[kind]} by the first rule")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--set", choices=("population", "scenarios", "calibration"), default="population")
    parser.add_argument("--scenario", choices=SCENARIOS, help="one of the scenarios alone")
    parser.add_argument("--seed", type=int, default=2026, help="which studies of the population")
    asked = parser.parse_args()
    print(f"| studies | true | {' | '.join(RULES)} | at an end | found |\n{'|---' * (4 + len(RULES))}|")
    designs = CALIBRATION if asked.set == "calibration" else SCENARIOS
    if asked.scenario:
        print(of_one_design(asked.scenario, SCENARIOS[asked.scenario], asked.studies))
    elif asked.set == "population":
        print("\n".join(of_the_population(asked.studies, asked.seed)))
    else:
        for name, of in designs.items():
            print(of_one_design(name, of, asked.studies), flush=True)


if __name__ == "__main__":
    main()
