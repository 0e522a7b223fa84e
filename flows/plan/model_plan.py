"""Plan the models of a study: their sizes, matched where they are to be, and what they cost."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.models_section import Match, Variant
from dreamer_study.model.accounting import Resources, resources
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.config import la
from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.matching import EXPERTS, match_costs, match_fields
from dreamer_study.model.module_config import (
    TRANSFORMERS,
    Architecture,
    ModuleConfig,
    training_flops,
)
from dreamer_study.pipeline.errors import InputError, placing
from dreamer_study.pipeline.storage.digests import canonical

FAMILIES: dict[str, dict[str, bool]] = {  # how a family differs from the layered model
    "LA": {},
    "DR": {"recurrent": True},
    "DR+DA": {"recurrent": True, "depth_attention": True},
}
MARKS = ("bos_token_id", "eos_token_id")  # of a configuration of transformers


@dataclass(frozen=True)
class Sizing:
    """The question which sizes a model gets, and what it costs.

    `match` names the fields that are searched, by "flops" and "parameters"; without fields, a model
    of the bundled family is matched by its experts (section 3.8). Without `target` nothing is
    searched. `optimizer` has the fields of TrainingConfig that name another than AdamW, which must
    suit the model.
    """

    name: str
    architecture: Architecture
    length: int  # of the text over which FLOPs per token are counted
    match: Mapping[str, str] = dataclasses.field(default_factory=dict)
    target: Resources | None = None
    optimizer: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def by_formula(self) -> bool:
        """Whether formulas answer; the code of other models must run, which takes seconds."""
        return self.has_formulas and not self.optimizer

    @property
    def has_formulas(self) -> bool:
        """Whether formulas tell sizes and costs."""
        return isinstance(self.architecture, DreamerConfig) and not self.match

    def content(self) -> dict[str, Any]:
        """Return what decides the answer, for its key."""
        content = {
            "model": self.architecture.to_dict(),
            "length": self.length,
            "match": dict(self.match),
            "target": self.target and [self.target.flops_per_token, self.target.parameters],
            "says": "reads_documents",  # which answers of before do not
        }
        if self.optimizer:
            content["optimizer"] = dict(self.optimizer)
        return content


Answer = tuple[Architecture, Resources]
"""The sizes that a model gets, and what it costs."""


@dataclass(frozen=True)
class PlannedModel:
    """One model of the study with the resources that matching gave it (Table 1).

    `model_id`, variant and depth, is the model's key in tables and names of folders; `name` is what
    a reader sees: without the depth where the study has one. `searched` names the fields of its
    configuration that matching has searched.
    """

    model_id: str
    name: str
    variant: str
    depth: int
    config: Architecture
    searched: tuple[str, ...]
    parameters: int
    flops_per_token: float
    memory_bytes: int
    remarks: tuple[str, ...] = ()
    reads_documents: bool = True  # whether the model distinguishes the documents of a row by itself
    muon_share: float | None = None  # of the parameters, where Muon trains some

    def training_flops(self, length: int) -> float:
        """Count FLOPs per token of a training step on rows of `length` tokens."""
        return training_flops(self.config, length, 1.0) or 3 * self.flops_per_token


def plan_models(
    study: Study,
    vocabulary_size: int,
    answer: Callable[[Sizing], Answer] | None = None,
    end_token: int = 0,
    elsewhere: Mapping[str, Mapping[int, Resources]] | None = None,
) -> list[PlannedModel]:
    """Size every model that the study trains.

    `end_token` is the end mark of the tokenizer; `answer` knows what only running a model tells
    (default: `size`, without code), and `elsewhere` the costs, by depth, of variants that other
    studies have trained. Models are matched to the study's baseline. A baseline that is
    itself to be matched is matched, as the others are, to the layered model of `models.dreamer`.
    Raises InputError where no match exists.
    """
    answer = answer or size
    return [
        model
        for depth in study.models.depths
        for model in _plan_depth(study, depth, vocabulary_size, end_token, answer, elsewhere or {})
    ]


def _plan_depth(
    study: Study,
    depth: int,
    vocabulary_size: int,
    end_token: int,
    answer: Callable[[Sizing], Answer],
    elsewhere: Mapping[str, Mapping[int, Resources]],
) -> list[PlannedModel]:
    """Size the models of one depth that the study trains."""
    models = study.models
    length = models.counted_length or study.training.sequence_length
    layered = layered_model(study, depth, vocabulary_size)
    described = {
        variant.name: describe(study, variant, layered, end_token) for variant in models.trained
    }
    baseline = study.variant(models.compared_with)
    reference: Architecture | None = None  # that the baseline itself is
    if baseline.origin:
        target = elsewhere[baseline.name][depth]
    else:
        reference = layered if baseline.matched else described[baseline.name]
        _, target = answer(Sizing(baseline.name, reference, length))

    planned = []
    for variant in models.trained:
        config = described[variant.name]
        optimizer = study.optimizer_of(variant.name)
        fields: Mapping[str, str] = {}
        if variant.matched and config != reference:
            fields = searched(variant)
            sizing = Sizing(variant.name, config, length, fields, target, optimizer)
            fields = fields or EXPERTS
        else:
            sizing = Sizing(variant.name, config, length, optimizer=optimizer)
        config, costs = answer(sizing)
        planned.append(
            PlannedModel(
                model_id=f"{variant.name}-{depth}",
                name=shown_name(study, variant.name, depth),
                variant=variant.name,
                depth=depth,
                config=config,
                searched=tuple(fields.values()),
                **vars(costs),
            )
        )
    return planned


def shown_name(study: Study, variant: str, depth: int) -> str:
    """Return what a reader sees of a model: with its depth where the study has several.

    "Llama-4", of depth 4, would be another model.
    """
    return variant if len(study.models.depths) == 1 else f"{variant}-{depth}"


def layered_model(study: Study, depth: int, vocabulary_size: int) -> DreamerConfig:
    """Describe the layered model of `models.dreamer`, from which families differ."""
    sizes = {
        "vocabulary_size": vocabulary_size,
        "sequence_length": study.training.sequence_length,
    }
    with placing("models.dreamer"):
        return la(**{"depth": depth, **study.models.dreamer, **sizes})


def searched(variant: Variant) -> dict[str, str]:
    """Name the fields of a variant that are searched, by "flops" and "parameters"."""
    return variant.match.fields if isinstance(variant.match, Match) else {}


def describe(
    study: Study, variant: Variant, layered: DreamerConfig, end_token: int = 0
) -> Architecture:
    """Describe a variant before it is matched.

    A model of transformers gets the study's end mark as its marks, unless the study says others:
    its own defaults are tokens of another vocabulary.
    """
    with placing(f"models.variants: {variant.name}"):
        if variant.family:
            changes = {**FAMILIES[variant.family], **variant.overrides}
            if not changes:
                return layered
            return DreamerConfig(**{**layered.to_dict(), **changes})
        module = variant.module or f"{TRANSFORMERS}:{variant.transformers}"
        files = digests(study.place, variant.code_files)
        config = variant.config
        if variant.transformers:
            config = {**dict.fromkeys(MARKS, end_token), "pad_token_id": None, **config}
        return ModuleConfig(
            module=module,
            config=config,
            files=files,
            vocabulary_size=layered.vocabulary_size,
            sequence_length=layered.sequence_length,
        )


def size(sizing: Sizing, code: Path | None = None, *, trust_code: bool = False) -> Answer:
    """Answer a sizing: search the sizes that bring the model nearest to its target, and its costs.

    Raises InputError where no match exists, and for a model that breaks the contract of an
    architecture.
    """
    with placing(f"models.variants: {sizing.name}"):
        if sizing.by_formula:
            return _by_formula(sizing)
        if sizing.has_formulas:
            config, costs = _by_formula(sizing)
        else:
            config, costs = _by_running(sizing, code, trust_code=trust_code)
        return config, _with_recipe(sizing, config, costs, code, trust_code=trust_code)


def _with_recipe(
    sizing: Sizing, config: Architecture, costs: Resources, code: Path | None, *, trust_code: bool
) -> Resources:
    """Add to the costs of a model what its optimizer means for it."""
    # imports torch
    from dreamer_study.model.training.check_recipe import check_recipe

    recipe = dict(sizing.optimizer)
    checked = check_recipe(config, recipe, code=code, trust_code=trust_code)
    remarks = (*costs.remarks, *checked.remarks)
    return dataclasses.replace(costs, remarks=remarks, muon_share=checked.muon_share)


def _by_formula(sizing: Sizing) -> Answer:
    config = sizing.architecture
    target = sizing.target
    if target:
        # As many experts in all as the layers of a layered model have.
        experts = max(config.experts * config.depth // config.pools, config.active_experts)
        start = dataclasses.replace(config, experts=experts)
        config = match_costs(start, target.flops_per_token, target.parameters, length=sizing.length)
    return config, resources(config, sizing.length)


def _by_running(sizing: Sizing, code: Path | None, *, trust_code: bool) -> Answer:
    # imports torch
    from dreamer_study.model.architectures.check_contract import check_contract
    from dreamer_study.model.architectures.count_flops import check_countable, count

    config = sizing.architecture
    length = sizing.length
    target = sizing.target

    def sized(values: Mapping[str, Any]) -> Architecture:
        if isinstance(config, DreamerConfig):
            return DreamerConfig(**values)
        return dataclasses.replace(config, config=dict(values))

    @cache  # the search comes back to the same sizes
    def counted(values: str) -> Resources:
        return count(sized(json.loads(values)), length, code=code, trust_code=trust_code)

    def cost(sizes: Mapping[str, Any]) -> dict[str, float]:
        costs = counted(canonical(sizes))
        check_countable(costs)
        return {"flops": costs.flops_per_token, "parameters": costs.parameters}

    values = config.to_dict() if isinstance(config, DreamerConfig) else config.config
    if target:
        wanted = {"flops": target.flops_per_token, "parameters": target.parameters}
        values = match_fields(values, sizing.match, wanted, cost)
        config = sized(values)
    costs = counted(canonical(values))
    if isinstance(config, ModuleConfig):
        remarks = check_contract(config, code=code, trust_code=trust_code)
        costs = dataclasses.replace(costs, remarks=(*costs.remarks, *remarks))
    return config, costs


def check_trusted(study: Study, *, trust_code: bool) -> None:
    """Raise InputError for a model in a file of the user's, unless code is trusted."""
    if trust_code:
        return
    for variant in study.models.trained:
        if variant.module:
            raise InputError(
                f"models.variants: {variant.name} is Python in {variant.module.partition(':')[0]},"
                " which a study runs only with --trust-code (Prefect: trust_code); look at the"
                " file first"
            )
        files = study.optimizer_files(variant.name)
        if files:
            raise InputError(
                f"models.variants: {variant.name} is trained by Python in {files[0]}, which a study"
                " runs only with --trust-code (Prefect: trust_code); look at the file first"
            )
