"""Match a variant to a baseline in FLOPs per token and parameters (section 3.8).

Coordinate descent over two sizes: the expert size, in steps of 8, until FLOPs are nearest; then the
number of experts until parameters are nearest; and again, as the number of experts has moved the
routing FLOPs, until nothing changes. Smaller experts are more experts, whose routing asks for still
smaller ones: where that ends at sizes that do not exist, every expert size is tried with its number
of experts, and the nearest is taken if it is near in both.
"""

from __future__ import annotations

import dataclasses
import itertools
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


def match(baseline: DreamerConfig, variant: DreamerConfig, *, length: int = 1024) -> DreamerConfig:
    """Return `variant` with the expert size and number that bring it nearest to `baseline`.

    FLOPs are those per token over a generation of `length` tokens. Raises InputError, with the
    reason, where no size comes near.
    """
    experts = baseline.experts * baseline.layers // variant.layers  # as many in all
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
    InputError also where a field is no size.
    """
    matched = dict(values)
    seen: list[list[Any]] = []
    sizes = [matched.get(field) for field in fields.values()]
    while sizes not in seen:  # sizes that come again are either the end or a cycle
        seen.append(sizes)
        for resource, field in fields.items():
            matched[field] = _nearest_value(matched, field, resource, target, cost)
        sizes = [matched.get(field) for field in fields.values()]
    return matched


def _nearest_value(
    values: Mapping[str, Any],
    field: str,
    resource: str,
    target: Mapping[str, float],
    cost: Callable[[Mapping[str, Any]], Mapping[str, float]],
) -> int:
    """Find the value of one size field at which a resource is nearest to its target."""
    start = values.get(field)
    if type(start) is not int or start < 1:
        raise InputError(
            f"config.{field} is {start!r}; give the whole number at which the search begins"
        )
    step = _step(start, lambda value: cost({**values, field: value}))

    def cost_of(number: int) -> float:
        try:
            return cost({**values, field: number * step})[resource]
        except InputError:
            if number * step >= start:
                raise
            return -math.inf  # too small for a model of this kind

    least = next(number for number in itertools.count(1) if cost_of(number) > -math.inf)
    number = _nearest(cost_of, target[resource], least=least)
    if number is None:
        costs = f"{cost_of(least):.4g} {resource}, the baseline only {target[resource]:.4g}"
        raise InputError(
            f"even with {field} {least * step} it has {costs}; give the baseline more or larger"
            " experts"
        )
    return number * step


def _step(start: int, cost: Callable[[int], object]) -> int:
    """Find the smallest step of sizes of which models can be built.

    Some sizes must be multiples, as of the number of heads.
    """
    for step in (1, 2, 4, 8, 16, 32, 64):
        try:
            for number in (1, 2):
                cost((start // step + number) * step)
        except InputError:
            continue
        return step
    return start


def _nearest(cost: Callable[[int], float], target: float, *, least: int) -> int | None:
    """Find the number from `least` on whose rising cost is nearest to `target`, by bisection.

    None if `least` costs too much: more than half a step above the target.
    """
    if cost(least) >= target:
        step = cost(least + 1) - cost(least)
        return least if cost(least) - target <= step / 2 else None
    above = 2 * least
    while cost(above) < target:
        above *= 2
    below = above // 2  # cost(below) < target <= cost(above)
    while above - below > 1:
        middle = (below + above) // 2
        if cost(middle) < target:
            below = middle
        else:
            above = middle
    return below if target - cost(below) <= cost(above) - target else above
