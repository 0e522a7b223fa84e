"""Plan the models of a study: match every variant to LA of its depth, and describe each training run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flows.study.configuration import Study, Variant
from model.accounting import flops_per_token, memory_bytes, parameters
from model.config import DreamerConfig, la
from model.matching import match
from model.training.config import HOW_IT_RUNS
from pipeline.storage.store import Output, digest

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


def describe_run(study: Study, packed: Output, model: PlannedModel, seed: int) -> dict[str, Any]:
    """Build a run's `run.json`, without the path of its data. The run's id is a digest of what decides its results."""
    content = {
        "variant": model.variant,
        "depth": model.depth,
        "seed": seed,
        "model": model.config.to_dict(),
        "training": study.training.recipe(seed),
    }
    return {"run_id": f"{model.model_id}-s{seed}-{digest([identity(content), packed.key])[:8]}", **content}


def identity(run: dict[str, Any]) -> dict[str, Any]:
    """Remove from a run's description what only says how the run is computed."""
    training = {name: value for name, value in run["training"].items() if name not in HOW_IT_RUNS}
    return {**run, "training": training}
