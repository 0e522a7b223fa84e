"""The section `models` of a study file: the architectures, and their depths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    create_model,
    field_validator,
    model_validator,
)

from dreamer_study.model.training.config import HOW_FAR, NotNegative, TrainingConfig
from dreamer_study.model.training.recipe import OWN_CLASS, spelled_out
from dreamer_study.pipeline.settings import Section, check_keys, distinct

VARIANTS = ("LA", "DR", "DR+DA")
ELSEWHERE = {  # sizes of a model that other settings give
    "depth": "models.depths",
    "vocabulary_size": "data.tokenizer",
    "sequence_length": "training.sequence_length",
}
# settings that all variants share
OF_ALL = (
    "seed",
    *HOW_FAR,
    "batch_tokens",
    "branches",
    "loss_on",
    "device",
    "raw_checkpoints",
    "optimizer_files",
)
BETAS = "betas"  # beta1 and beta2 as a pair

Distinct = AfterValidator(lambda values: distinct(values, "these values"))
Seeds = Annotated[list[NotNegative], Distinct]


class Match(Section):
    """The sizes of a variant that are searched to bring its costs nearest to the baseline's."""

    flops: str | None = Field(
        None, description="The size that is searched for equal FLOPs per token."
    )
    parameters: str | None = Field(
        None, description="The size that is searched for equal parameters."
    )

    @model_validator(mode="after")
    def _of_two_sizes(self) -> Match:
        if self.flops and self.flops == self.parameters:
            raise ValueError(
                f"flops and parameters both search {self.flops}, which can match one of both; name"
                " another size, or leave one out"
            )
        return self

    @property
    def fields(self) -> dict[str, str]:
        """The name of each searched size, by the cost that it matches."""
        return self.model_dump(exclude_none=True)


# `from` is a word of Python, which no class can name as a field.
_Elsewhere: Any = create_model(
    "_Elsewhere",
    __base__=Section,
    **{
        "from": (
            str | None,
            Field(
                None,
                min_length=1,
                description=(
                    "a finished study that has trained this variant: its folder, published folder"
                    " or results file, or a world of the atlas, such as atlas/mixture; its rows are"
                    " taken, and nothing is trained"
                ),
            ),
        )
    },
)


class Variant(_Elsewhere):
    """One architecture to compare.

    It comes from the bundled family, from your own file, from the transformers library, or from
    another study, which has trained it.
    """

    name: str = Field(
        pattern=r"^[A-Za-z0-9+][A-Za-z0-9+_.-]*$",
        description="letters, digits, + and (not first) . - _",
    )
    family: Literal["LA", "DR", "DR+DA"] | None = Field(
        None,
        description=(
            "A bundled architecture: LA (layered), DR (depth-recurrent), DR+DA (with depth"
            " attention)."
        ),
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="With `family`: sizes that replace those of models.dreamer.",
    )
    module: str | None = Field(
        None, pattern=rf"^{OWN_CLASS.pattern}$", description="a class: <file>.py:<class>"
    )
    files: list[str] = Field(
        default_factory=list,
        description="More code files that the module or its own optimizer needs.",
    )
    transformers: str | None = Field(
        None, pattern=r"^\w[\w.-]*$", description="a model type of transformers"
    )
    config: dict[str, Any] = Field(
        default_factory=dict, description="Arguments of the class, or of the model type."
    )
    match: bool | Match | None = Field(
        None,
        description=(
            "Match the costs to the baseline's: the sizes to search, or true (the default of a"
            " `family`) to search the experts and their size."
        ),
    )
    training: dict[str, Any] = Field(
        default_factory=dict,
        description=(
            "Settings of this variant that replace those of `training`. A learning_rate may be"
            " {times: 0.25, of: LA}. A learning_rate, weight_decay or schedule given here is not"
            " tuned."
        ),
    )
    seeds: Seeds | None = Field(
        None, min_length=1, description="Seeds of this variant; null: training.seeds."
    )

    @field_validator("match", mode="before")
    @classmethod
    def _names_sizes(cls, match: Any) -> Any:
        """Refuse what is neither true, false nor sizes by their costs, in words of the file."""
        if match is None or isinstance(match, bool | Match):
            return match
        if not isinstance(match, Mapping):
            raise ValueError("it must be true, false, or name sizes, as {flops: intermediate_size}")
        sizes = check_keys(match, [*Match.model_fields])
        for cost, size in sizes.items():
            if not isinstance(size, str | None):
                raise ValueError(f"{cost} is {size!r}, but it must be the name of a size")
        return sizes

    @field_validator("training")
    @classmethod
    def _of_its_own(cls, training: dict[str, Any]) -> dict[str, Any]:
        valid = [name for name in TrainingConfig.__dataclass_fields__ if name not in OF_ALL]
        return spelled_out(check_keys(training, [*valid, BETAS]))

    @model_validator(mode="after")
    def _one_origin(self) -> Variant:
        origins = (self.family, self.module, self.transformers, self.origin)
        if sum(origin is not None for origin in origins) != 1:
            raise ValueError(f"{self.name}: give one of family, module, transformers and from")
        if self.match is True and not self.family:
            raise ValueError(
                f"{self.name}: match must name the sizes to search, as in match: {{flops:"
                " hidden_size}"
            )
        if isinstance(self.match, Match) and not self.match.fields:
            raise ValueError(f"{self.name}: match names no size; give flops, parameters or both")
        return self

    @model_validator(mode="after")
    def _nothing_of_its_own_from_elsewhere(self) -> Variant:
        own = self.model_fields_set - {"name", "from"}
        if self.origin and own:
            raise ValueError(
                f"{self.name}: its sizes, recipe and seeds are those of {self.origin}; leave out"
                f" {' and '.join(sorted(own))}"
            )
        return self

    @model_validator(mode="after")
    def _settings_of_its_origin(self) -> Variant:
        if self.overrides and not self.family:
            raise ValueError(
                f"{self.name}: overrides needs family; give sizes of your own class in config"
            )
        has_own_optimizer = file_of(self.training.get("optimizer")) is not None
        if self.files and not (self.module or has_own_optimizer):
            raise ValueError(f"{self.name}: files needs module, or an optimizer of your own")
        if self.config and self.family:
            raise ValueError(f"{self.name}: give sizes of a family in overrides, not in config")
        for size, setting in ELSEWHERE.items():
            if size in self.overrides and size != "depth":
                raise ValueError(
                    f"{self.name}: {setting} sets {size}; leave {size} out of overrides"
                )
        return self

    @property
    def origin(self) -> str | None:
        """The study that has trained the variant, as the study file names it; None: this one."""
        return getattr(self, "from")

    @property
    def matched(self) -> bool:
        """Whether sizes of the variant are searched.

        The sizes of the variant that the others are matched to are never searched.
        """
        if self.match is None:
            return self.family is not None
        return bool(self.match)

    @property
    def code_files(self) -> list[str]:
        """The code files that the variant's class needs, the file of the class first."""
        return [self.module.rpartition(":")[0], *self.files] if self.module else []


def file_of(optimizer: Any) -> str | None:
    """Return the file of your own optimizer; None for an optimizer of this package."""
    is_own = isinstance(optimizer, str) and OWN_CLASS.fullmatch(optimizer)
    return optimizer.rpartition(":")[0] if is_own else None


def _named(entry: Any) -> Any:
    """Return the variant that the name of a family stands for."""
    return {"name": entry, "family": entry} if isinstance(entry, str) else entry


NamedVariant = Annotated[
    Variant, BeforeValidator(_named, json_schema_input_type=Literal["LA", "DR", "DR+DA"] | Variant)
]


class Models(Section):
    """The architectures and depths. Variants match the baseline in FLOPs and parameters."""

    depths: Annotated[list[Annotated[int, Field(ge=1)]], Distinct] = Field(
        default=[4], min_length=1, description="Numbers of layers, or of iterations of one layer."
    )
    variants: list[NamedVariant] = Field(
        default=[Variant(name=v, family=v) for v in VARIANTS],
        min_length=1,
        description="The architectures to compare.",
    )
    baseline: str | None = Field(
        None,
        description="The variant that others are compared with and matched to; null: the first.",
    )
    dreamer: dict[str, Any] = Field(default_factory=dict, description="Sizes of LA, DR and DR+DA.")
    counted_length: int | None = Field(
        None,
        ge=1,
        description="Tokens of the sequence that FLOPs are counted over; null: sequence_length.",
    )

    @model_validator(mode="after")
    def _named_once(self) -> Models:
        names = distinct([variant.name for variant in self.variants], "variant names")
        if self.baseline is not None and self.baseline not in names:
            raise ValueError(
                f"baseline is {self.baseline!r}, but the variants are {', '.join(names)}"
            )
        return self

    @model_validator(mode="after")
    def _trains_one(self) -> Models:
        if not self.trained:
            raise ValueError("every variant comes from another study; name one to be trained")
        return self

    @property
    def trained(self) -> list[Variant]:
        """The variants that the study trains itself."""
        return [variant for variant in self.variants if not variant.origin]

    @property
    def elsewhere(self) -> list[Variant]:
        """The variants whose rows come from another study."""
        return [variant for variant in self.variants if variant.origin]

    @property
    def compared_with(self) -> str:
        """The variant that the others are compared with."""
        return self.baseline or self.variants[0].name

    @field_validator("dreamer")
    @classmethod
    def _said_here_alone(cls, dreamer: dict[str, Any]) -> dict[str, Any]:
        for size, setting in ELSEWHERE.items():
            if size in dreamer:
                raise ValueError(f"{setting} sets {size}; leave {size} out here")
        return dreamer
