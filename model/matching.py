"""Match a variant to a baseline in FLOPs per token and parameters (section 3.8).

Coordinate descent over two sizes: the expert size, in steps of 8, until FLOPs are nearest; then the
number of experts until parameters are nearest; and again, as the number of experts has moved the
routing FLOPs, until nothing changes. Smaller experts are more experts, whose routing asks for still
smaller ones: where that ends at sizes that do not exist, every expert size is tried with its number
of experts, and the nearest is taken if it is near in both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from dreamer_study.model.accounting import flops_per_token, parameters
from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.pipeline.errors import InputError

SIZE_STEP = 8  # of expert sizes
EXPERTS = {"flops": "expert_size", "parameters": "experts"}  # the size that moves each cost
# where the descent fails: the largest relative distance in FLOPs and in parameters
NEAR = 0.01
# of a field that moves its cost by jumps: how far from the target its nearest cost may be
NEAR_BY_JUMPS = 0.02
# a cost that is no larger over so many numbers, each at least double, does not reach its target
STANDSTILL = 6


def match(baseline: DreamerConfig, variant: DreamerConfig, *, length: int = 1024) -> DreamerConfig:
    """Return `variant` with the expert size and number that bring it nearest to `baseline`.

    FLOPs are those per token over a generation of `length` tokens. Raises InputError, with the
    reason, where no size comes near.
    """
    experts = baseline.experts * baseline.pools // variant.pools  # as many in all
    start = dataclasses.replace(variant, experts=max(experts, variant.active_experts))
    return match_costs(
        start, flops_per_token(baseline, length), parameters(baseline), length=length
    )


def match_costs(
    variant: DreamerConfig, target_flops: float, target_parameters: int, *, length: int = 1024
) -> DreamerConfig:
    """Return `variant` with the sizes that bring it nearest to these costs.

    The search begins at the variant's own sizes.
    """
    target = {"flops": target_flops, "parameters": target_parameters}

    def cost(values: Mapping[str, Any]) -> dict[str, float]:
        config = DreamerConfig(**values)
        return {"flops": flops_per_token(config, length), "parameters": parameters(config)}

    try:
        return DreamerConfig(**match_fields(variant.to_dict(), EXPERTS, target, cost))
    except InputError as error:
        near = _near_in_both(variant.to_dict(), target, cost)
        if near is None:
            raise InputError(
                f"matching: {variant.variant} of depth {variant.depth}: {error}"
            ) from error
        return DreamerConfig(**near)


def _near_in_both(
    values: dict[str, Any],
    target: Mapping[str, float],
    cost: Callable[[Mapping[str, Any]], Mapping[str, float]],
) -> dict[str, Any] | None:
    """Find the expert size nearest in FLOPs, with the number of experts nearest in parameters.

    None if no size is near in both.
    """
    near: dict[float, dict[str, Any]] = {}  # by mismatch in FLOPs
    fewest = values["active_experts"]
    tried = {**values, "expert_size": SIZE_STEP, "experts": fewest}
    while cost(tried)["flops"] <= (1 + NEAR) * target["flops"]:  # the least that this size needs
        try:
            tried["experts"] = _nearest_value(tried, "experts", "parameters", target, cost)
        except InputError:
            break  # larger experts have still more parameters
        costs = cost(tried)
        flops_mismatch = abs(costs["flops"] / target["flops"] - 1)
        parameters_mismatch = abs(costs["parameters"] / target["parameters"] - 1)
        if flops_mismatch <= NEAR and parameters_mismatch <= NEAR:
            near.setdefault(flops_mismatch, dict(tried))
        tried["expert_size"] += SIZE_STEP
        tried["experts"] = fewest
    return near[min(near)] if near else None


def match_fields(
    values: Mapping[str, Any],
    fields: Mapping[str, str],
    target: Mapping[str, float],
    cost: Callable[[Mapping[str, Any]], Mapping[str, float]],
) -> dict[str, Any]:
    """Return `values` with the sizes in `fields` that bring their costs nearest to the target.

    `fields` names the field that is changed for each resource, "flops" or "parameters", as `target`
    and `cost(values)` do. `cost` raises InputError for values of which no model can be built;
    InputError also where a field is no size, or moves its cost otherwise than a size does.
    """
    matched = dict(values)
    seen: list[list[Any]] = []
    sizes = [matched.get(field) for field in fields.values()]
    while sizes not in seen:  # sizes that come again are either the end or a cycle
        seen.append(sizes)
        for resource, field in fields.items():
            matched[field] = _nearest_value(matched, field, resource, target, cost)
        sizes = [matched.get(field) for field in fields.values()]
        if len(fields) == 1:  # nothing else has moved, by which its cost could be another
            break
    return matched


def check_start(values: Mapping[str, Any], field: str) -> int:
    """Return the size at which a search begins. Raises InputError where the field has none."""
    start = values.get(field)
    if start is None:
        raise InputError(
            f"match names {field}, which config does not give; add {field} with the whole number at"
            " which the search begins"
        )
    if type(start) is not int or start < 1:
        raise InputError(
            f"config.{field} is {start!r}; give the whole number at which the search begins"
        )
    return start


def _nearest_value(
    values: Mapping[str, Any],
    field: str,
    resource: str,
    target: Mapping[str, float],
    cost: Callable[[Mapping[str, Any]], Mapping[str, float]],
) -> int:
    """Find the value of one size field at which a resource is nearest to its target."""
    start = check_start(values, field)
    step = _step(start, lambda value: cost({**values, field: value}))

    def cost_of(number: int) -> float:
        value = number * step
        try:
            return cost({**values, field: value})[resource]
        except InputError as error:
            if value == start:
                raise
            if value > start:
                raise InputError(
                    f"{error}; the search for equal {resource} had set {field} to {value}: search"
                    " another size, or keep its own by match: false"
                ) from error
            return -math.inf  # too small for a model of this kind

    search = _Search(cost_of, target[resource], near=start // step)
    number = search.nearest()
    if number is not None and search.moves and search.is_near(number):
        return number * step
    reached = [(tried * step, known) for tried, known in sorted(search.built.items())]
    raise InputError(_why(field, resource, target[resource], reached))


def _why(field: str, resource: str, target: float, reached: list[tuple[int, float]]) -> str:
    """Say why no value of a field brings a cost near to its target, with the costs reached."""
    least, least_cost = reached[0]
    most, most_cost = reached[-1]
    other = "search another size, or keep its own by match: false"
    if least_cost >= target and most_cost > least_cost:
        return (
            f"even with {field} {least} it has {least_cost:,.0f} {resource}, the baseline only"
            f" {target:,.0f}; make another of its sizes smaller"
        )
    costs = [cost for _, cost in reached]
    if min(costs) == max(costs):
        return (
            f"{field} does not move its {resource}: from {least} to {most} they stay at"
            f" {least_cost:,.0f}, the baseline has {target:,.0f}; {other}"
        )
    wanted = f"from {least} to {most} they go from {least_cost:,.0f} to {most_cost:,.0f}"
    lower = [(size, cost) for size, cost in reached if cost < target]
    higher = [(size, cost) for size, cost in reached if cost >= target]
    if lower and higher and lower[-1] < higher[0]:
        wanted += (
            f", but jump from {lower[-1][1]:,.0f} at {lower[-1][0]} to {higher[0][1]:,.0f} at"
            f" {higher[0][0]}"
        )
    return (
        f"{field} does not move its {resource} as a size does: {wanted}, the baseline has"
        f" {target:,.0f}; the model may set {field} by itself: {other}"
    )


def _step(start: int, cost: Callable[[int], object]) -> int:
    """Find the smallest step of sizes of which models can be built.

    Some sizes must be multiples, as of the number of heads, which mostly divides the start.
    """
    divisors = {step for step in range(1, start + 1) if start % step == 0}
    for step in sorted(divisors | {1, 2, 4, 8, 16, 32, 64}):
        try:
            for number in (1, 2):
                cost((start // step + number) * step)
        except InputError:
            continue
        return step
    return start


class _Search:
    """Search the number whose rising cost is nearest to a target, with few costs counted.

    Costs are mostly a polynomial in a size: three are counted, the polynomial through them says
    where the target is, and the costs there and beside are counted. Where a cost is another than
    the polynomial says, the next guess has learned of that, or halves what is left.
    """

    def __init__(self, cost: Callable[[int], float], target: float, *, near: int) -> None:
        self.cost = cost
        self.target = target
        self.known: dict[int, float] = {}
        # `_step` has counted the last two already
        for number in (max(1, near // 2), near + 1, near + 2):
            self.count(number)
        self.first = dict(self.built)

    def count(self, number: int) -> float:
        """Count the cost of a number, once."""
        if number not in self.known:
            self.known[number] = self.cost(number)
        return self.known[number]

    @property
    def built(self) -> dict[int, float]:
        """The costs of the numbers of which a model can be built."""
        return {number: cost for number, cost in self.known.items() if cost > -math.inf}

    @property
    def below(self) -> int:
        """The largest number known to cost less than the target; 0 where none is known."""
        return max((number for number, cost in self.known.items() if cost < self.target), default=0)

    @property
    def above(self) -> int | None:
        """The smallest number beyond `below` that costs the target or more, if one is known."""
        below = self.below
        return min((number for number in self.known if number > below), default=None)

    @property
    def moves(self) -> bool:
        """Whether the cost was not the same wherever it was counted."""
        return len(set(self.built.values())) > 1

    def is_near(self, number: int) -> bool:
        """Whether the cost of the nearest number is near enough to the target.

        Where the cost moves by about what the first three costs say, it is as near as can be.
        """
        if abs(self.count(number) / self.target - 1) <= NEAR_BY_JUMPS:
            return True
        above = self.above
        assert above is not None, "the nearest number was found"
        lower, higher = (self.below, above) if self.below in self.built else (above, above + 1)
        cost = _polynomial(self.first)
        expected = cost(higher) - cost(lower)
        jump = self.count(higher) - self.count(lower)
        return abs(jump - expected) <= abs(expected) / 2

    def nearest(self) -> int | None:
        """Find the number whose cost is nearest to the target.

        None if even the least costs too much, more than half a step above the target, and if no
        number costs enough.
        """
        guesses = 0
        while self.above is None or self.above - self.below > 1:
            guess = self._guess(halve=guesses % 3 == 2)
            if guess is None:
                return None
            self.count(guess)
            guesses += 1
        below = self.below
        above = self.above
        if below not in self.built:  # the least number of which there is a model costs enough
            step = self.count(above + 1) - self.count(above)
            return above if self.count(above) - self.target <= step / 2 else None
        is_nearer = self.target - self.count(below) <= self.count(above) - self.target
        return below if is_nearer else above

    def _guess(self, *, halve: bool) -> int | None:
        """Guess a number between `below` and `above`; None where larger ones no longer cost more.

        By the polynomial it is the last number that costs less than the target. It is at least
        `below` + 1, so that something new is counted.
        """
        below = self.below
        above = self.above
        if above is None:
            largest = sorted(self.built)[-STANDSTILL:]
            if len(largest) == STANDSTILL and self.known[largest[0]] >= self.known[largest[-1]]:
                return None
            above = 4 * below  # not further, as a polynomial may be wrong far away
            halve = False
        if not halve:
            cost = _polynomial(self._around())
            low = below
            high = above
            while high - low > 1:
                middle = (low + high) // 2
                if cost(middle) < self.target:
                    low = middle
                else:
                    high = middle
            return max(low, below + 1)
        return (below + above) // 2

    def _around(self) -> dict[int, float]:
        """Return the three known costs that are nearest to the target."""
        costs = sorted(self.built.items(), key=lambda known: abs(known[1] - self.target))
        return dict(costs[:3])


def _polynomial(points: Mapping[int, float]) -> Callable[[float], float]:
    """Return the polynomial of the least degree through some points (Lagrange)."""

    def value(at: float) -> float:
        total = 0.0
        for number, cost in points.items():
            others = [other for other in points if other != number]
            total += cost * math.prod((at - other) / (number - other) for other in others)
        return total

    return value
