"""Match a variant to a baseline in FLOPs per token and parameters (section 3.8).

Coordinate descent over two sizes: the expert size, in steps of 8, until FLOPs are nearest; then the number of
experts until parameters are nearest; and again, as the number of experts has moved the routing FLOPs, until nothing
changes. Smaller experts are more experts, whose routing asks for still smaller ones: where that ends at sizes that do
not exist, every expert size is tried with its number of experts, and the nearest is taken if it is near in both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from model.accounting import flops_per_token, parameters
from model.architecture import DreamerConfig
from pipeline.errors import InputError

SIZE_STEP = 8
NEAR = 0.01  # what counts as near in FLOPs and in parameters, where the descent has found no sizes


def match(baseline: DreamerConfig, variant: DreamerConfig, *, length: int = 1024) -> DreamerConfig:
    """Return `variant` with the expert size and number of experts that bring it nearest to `baseline`.

    FLOPs are those per token over a generation of `length` tokens. Raises InputError, with the reason, where no size
    comes near.
    """
    experts = baseline.experts * baseline.layers // variant.layers  # as many in all
    found = dataclasses.replace(variant, experts=max(experts, variant.active_experts))
    return match_costs(found, flops_per_token(baseline, length), parameters(baseline), length=length)


def match_costs(
    variant: DreamerConfig, target_flops: float, target_parameters: int, *, length: int = 1024
) -> DreamerConfig:
    """Return `variant` with the sizes that bring it nearest to these costs; the search begins at its own sizes."""
    found = variant
    sizes: list[tuple[int, int]] = []
    while (found.expert_size, found.experts) not in sizes:  # a repeated pair is the end, or one of two equally near
        sizes.append((found.expert_size, found.experts))
        try:
            sized = _nearest_size(found, target_flops, length)
        except InputError:
            near = _near_in_both(variant, target_flops, target_parameters, length)
            if near is None:
                raise
            return near
        found = _nearest_experts(sized, target_parameters)
    return found


def _near_in_both(
    variant: DreamerConfig, target_flops: float, target_parameters: int, length: int
) -> DreamerConfig | None:
    """Find the expert size nearest in FLOPs, its experts nearest in parameters; None if not near in both."""
    near: dict[float, DreamerConfig] = {}  # by mismatch in FLOPs
    config = dataclasses.replace(variant, expert_size=SIZE_STEP, experts=variant.active_experts)
    while flops_per_token(config, length) <= (1 + NEAR) * target_flops:  # the least that this size needs
        try:
            found = _nearest_experts(config, target_parameters)
        except InputError:
            break  # larger experts have still more parameters
        mismatch = abs(flops_per_token(found, length) / target_flops - 1)
        if mismatch <= NEAR and abs(parameters(found) / target_parameters - 1) <= NEAR:
            near.setdefault(mismatch, found)
        config = dataclasses.replace(config, expert_size=config.expert_size + SIZE_STEP)
    return near[min(near)] if near else None


def _nearest_size(config: DreamerConfig, target: float, length: int) -> DreamerConfig:
    def flops(step: int) -> float:
        return flops_per_token(dataclasses.replace(config, expert_size=step * SIZE_STEP), length)

    step = _nearest(flops, target, least=1)
    if step is None:
        raise InputError(
            f"matching: {config.variant} of depth {config.depth} needs {flops(1):.4g} FLOPs per token even with experts"
            f" of size {SIZE_STEP}, the baseline only {target:.4g}; give the baseline larger or more active experts"
        )
    return dataclasses.replace(config, expert_size=step * SIZE_STEP)


def _nearest_experts(config: DreamerConfig, target: int) -> DreamerConfig:
    def count(experts: int) -> float:
        return parameters(dataclasses.replace(config, experts=experts))

    experts = _nearest(count, target, least=config.active_experts)
    if experts is None:
        raise InputError(
            f"matching: {config.variant} of depth {config.depth} has {count(config.active_experts)} parameters even"
            f" with {config.active_experts} experts, the baseline only {target}; give the baseline more experts"
        )
    return dataclasses.replace(config, experts=experts)


def _nearest(cost: Callable[[int], float], target: float, *, least: int) -> int | None:
    """Find the number from `least` on whose rising cost is nearest to `target`; None if `least` costs too much."""
    if cost(least) >= target:
        step = cost(least + 1) - cost(least)
        return least if cost(least) - target <= step / 2 else None
    above = 2 * least
    while cost(above) < target:
        above *= 2
    below = above // 2  # cost(below) < target <= cost(above)
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if cost(middle) < target else (below, middle)
    return below if target - cost(below) <= cost(above) - target else above


def match_fields(
    values: Mapping[str, Any],
    fields: Mapping[str, str],
    target: Mapping[str, float],
    cost: Callable[[Mapping[str, Any]], Mapping[str, float]],
) -> dict[str, Any]:
    """Return `values` with the sizes in `fields` that bring their costs nearest to the target, by the same descent.

    `fields` names the field that is changed for each resource, "flops" or "parameters", as `target` and `cost(values)`
    do. `cost` raises InputError for values of which no model can be built; InputError also where a field is no size.
    """
    found, seen = dict(values), list[list[Any]]()
    while (sizes := [found.get(field) for field in fields.values()]) not in seen:
        seen.append(sizes)
        for resource, field in fields.items():
            found[field] = _nearest_value(found, field, target[resource], lambda one, name=resource: cost(one)[name])
    return found


def _nearest_value(
    values: Mapping[str, Any], field: str, target: float, cost: Callable[[Mapping[str, Any]], float]
) -> int:
    start = values.get(field)
    if type(start) is not int or start < 1:
        raise InputError(f"matching: config.{field} is {start!r}; give the whole number at which the search begins")
    step = _step(start, lambda value: cost({**values, field: value}))

    def cost_of(number: int) -> float:
        try:
            return cost({**values, field: number * step})
        except InputError:
            if number * step >= start:
                raise
            return -math.inf  # too small for a model of this kind

    number = _nearest(cost_of, target, least=1)
    if number is None:
        raise InputError(
            f"matching: even with {field} {step} a model costs {cost_of(1):.4g}, the baseline {target:.4g}"
        )
    return number * step


def _step(start: int, cost: Callable[[int], float]) -> int:
    """Find the smallest step of sizes of which models can be built, as multiples of the number of heads."""
    for step in (1, 2, 4, 8, 16, 32, 64):
        try:
            for number in (1, 2):
                cost((start // step + number) * step)
        except InputError:
            continue
        return step
    return start
