"""Build the configurations of the three models of the paper.

`la` is the classically layered baseline with the hyperparameters of the paper (Table 3), `dr`
iterates one layer over all depths, `dr_da` adds depth attention. The last two take their expert
size and number of experts from matching (section 3.8) against the baseline.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.matching import match
from dreamer_study.pipeline.errors import InputError

SIZES = {"experts", "expert_size"}  # which matching changes


def la(depth: int = 16, **overrides: Any) -> DreamerConfig:
    """Configure the layered baseline: `depth` layers with 32 experts of size 512 each (Table 3)."""
    return DreamerConfig(**{"depth": depth, **_named("la", overrides, recurrent=False)})


def dr(
    depth: int | None = None, *, baseline: DreamerConfig | None = None, **overrides: Any
) -> DreamerConfig:
    """Configure the depth-recurrent model, matched to `baseline` (section 3.8).

    Defaults: for the baseline `la(depth)` with the same overrides, for the depth that of the
    baseline. With `experts` or `expert_size` among the overrides nothing is matched; all else is
    still the baseline's.
    """
    return _variant(depth, baseline, _named("dr", overrides, recurrent=True))


def dr_da(
    depth: int | None = None, *, baseline: DreamerConfig | None = None, **overrides: Any
) -> DreamerConfig:
    """Configure the depth-recurrent model with depth attention, matched as in `dr`."""
    return _variant(
        depth, baseline, _named("dr_da", overrides, recurrent=True, depth_attention=True)
    )


def _named(name: str, overrides: dict[str, Any], **switches: bool) -> dict[str, Any]:
    """Add the switches that define a variant to overrides.

    Raises InputError for an override that contradicts a switch.
    """
    for switch, value in switches.items():
        if overrides.get(switch, value) != value:
            raise InputError(
                f"model: {switch} is {overrides[switch]!r}, but in {name}() it must be {value}"
            )
    return {**overrides, **switches}


def _variant(
    depth: int | None, baseline: DreamerConfig | None, overrides: dict[str, Any]
) -> DreamerConfig:
    if baseline is None:
        apart = ("recurrent", "depth_attention", *SIZES)
        common = {name: value for name, value in overrides.items() if name not in apart}
        baseline = la(**common) if depth is None else la(depth, **common)
    own_depth = baseline.depth if depth is None else depth
    variant = dataclasses.replace(baseline, depth=own_depth, **overrides)
    if overrides.keys() & SIZES:
        return variant
    return match(baseline, variant)
