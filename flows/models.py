"""Plan the models of a study: match every variant to LA of its depth."""

from __future__ import annotations

from dataclasses import dataclass

from flows.study.configuration import Study, Variant
from model.accounting import flops_per_token, memory_bytes, parameters
from model.config import DreamerConfig, la
from model.matching import match

FAMILIES: dict[str, dict[str, bool]] = {  # how a family differs from the layered baseline
    "LA": {},
    "DR": {"recurrent": True},
    "DR+DA": {"recurrent": True, "depth_attention": True},
}


@dataclass(frozen=True)
class PlannedModel:
    """One model of the study with the resources that matching gave it (Table 1)."""

    model_id: str
    variant: str
    depth: int
    config: DreamerConfig
    parameters: int
    flops_per_token: float
    memory_bytes: int


def plan_models(study: Study, vocabulary_size: int) -> list[PlannedModel]:
    """Match every model of the study to LA of its depth (section 3.8). Raises InputError where no match exists."""
    planned = []
    for depth in study.models.depths:
        sizes = {"vocabulary_size": vocabulary_size, "sequence_length": study.training.sequence_length}
        baseline = la(**{"depth": depth, **study.models.baseline, **sizes})
        for variant in study.models.variants:
            config = _match(variant, baseline)
            resources = parameters(config), flops_per_token(config), memory_bytes(config)
            planned.append(PlannedModel(f"{variant.name}-{depth}", variant.name, depth, config, *resources))
    return planned


def _match(variant: Variant, baseline: DreamerConfig) -> DreamerConfig:
    changes = {**FAMILIES[variant.family], **variant.overrides}
    if not changes:
        return baseline
    config = DreamerConfig.from_dict({**baseline.to_dict(), **changes})
    return match(baseline, config) if variant.match else config
