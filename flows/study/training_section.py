"""The section `training` of a study file: one recipe for every model, seeds, and checkpoints."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator, model_validator

from dreamer_study.flows.study.models_section import Distinct, Seeds
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.recipe import (
    Finite,
    Positive,
    Share,
    spelled_out,
)
from dreamer_study.pipeline.settings import Section, distinct, settings_section
from dreamer_study.sql.statistics.sequential import LOOKS

MOST_CHECKPOINTS = 10_000
LONGEST_SEQUENCE = 2**20
MOST_RANKS = 256  # beyond every machine
TUNED = ("learning_rate", "weight_decay", "decay")  # settings to search; `decay` of the schedule


GROWN = "while a model is best at the lowest or highest value, it tries a value beyond"


class Tuning(Section):
    """A search over settings of the recipe, for every variant that does not set them itself.

    If several settings are searched, every combination is trained. Each model then tries the
    neighbours of its best settings, until a step of any one setting is worse.
    """

    learning_rate: Annotated[list[Positive], Distinct, AfterValidator(sorted)] | None = Field(
        None, min_length=2, description=f"Learning rates to try; {GROWN}."
    )
    weight_decay: Annotated[list[Finite], Distinct, AfterValidator(sorted)] | None = Field(
        None, min_length=2, description=f"Weight decays to try; {GROWN}."
    )
    decay: Annotated[list[Share], Distinct, AfterValidator(sorted)] | None = Field(
        None,
        min_length=2,
        description=(f"Shares `decay` of a schedule {{decay: ..., to: ...}} to try; {GROWN}."),
    )
    seeds: Seeds = Field(
        min_length=1, description="Seeds of the search, which train no model of the study."
    )
    tokens: int = Field(ge=1, description="Tokens of each training of the search.")

    @model_validator(mode="after")
    def _searches_something(self) -> Tuning:
        if not self.grids:
            raise ValueError(
                "tune: there is nothing to search; give a list for one or several of"
                f" {', '.join(TUNED)}"
            )
        return self

    @property
    def grids(self) -> dict[str, list[float]]:
        """The values of each setting that is searched, in rising order."""
        return {name: getattr(self, name) for name in TUNED if getattr(self, name) is not None}


class SeedsUntil(Section):
    """Add seeds to each model until the widest interval is narrow enough.

    The study looks at the intervals after 4, 8, 16 and 24 seeds.
    """

    high_over_low: float = Field(
        gt=1,
        description=(
            "Upper over lower end of an interval. Once every interval of the average accuracy is at"
            " most this wide, no seed is added."
        ),
    )
    most: int = Field(LOOKS[-1], gt=LOOKS[0], le=LOOKS[-1], description="Most seeds of each model.")


NOT_OF_A_STUDY = ("seed", "raw_checkpoints", "optimizer_files")


class Training(settings_section(TrainingConfig, without=NOT_OF_A_STUDY)):
    """The recipe of every model, the seeds and the checkpoints."""

    batch_tokens: int = Field(2**20, description="Tokens of one optimiser step, including padding.")
    save_every_seconds: float = Field(60, description="Seconds between two saved states.")
    checkpoints: int | list[int] = Field(
        12, description="Number of evenly spaced checkpoints, or a list of token counts."
    )
    checkpoint_every: int | None = Field(
        None,
        ge=1,
        description=(
            "Tokens between checkpoints, in place of `checkpoints`; a longer study keeps the same"
            " places."
        ),
    )
    sequence_length: int = Field(4096, ge=8, le=LONGEST_SEQUENCE, description="Tokens of a row.")
    seeds: Seeds = Field(
        default=[0, 1], min_length=1, description="Each model is trained once with each seed."
    )
    seeds_until: SeedsUntil | None = Field(
        None, description="In place of `seeds`: add seeds until intervals are narrow."
    )
    screening: float = Field(
        0.0,
        ge=0,
        lt=1,
        description=(
            "Share of the tokens after which only the best seed of each model continues; 0: all"
            " seeds are trained to the end."
        ),
    )
    tune: Tuning | None = Field(
        None,
        description="Search each model's learning rate, weight decay or decay on held-out text.",
    )
    ranks: int | None = Field(
        None,
        ge=1,
        le=MOST_RANKS,
        description=(
            "Processes that train a run together; null: the GPUs divided by the runs, at least 1."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, values: Any) -> Any:
        return spelled_out(values) if isinstance(values, dict) else values

    @model_validator(mode="before")
    @classmethod
    def _in_turn(cls, values: Any) -> Any:
        """Set the seeds of `seeds_until`: 0 to one less than `most`."""
        until = values.get("seeds_until") if isinstance(values, dict) else None
        if not isinstance(until, dict):
            return values
        most = until.get("most", LOOKS[-1])
        seeds = [0]  # if `most` is wrong, its own check says so
        if isinstance(most, int) and most > 0:
            seeds = list(range(most))
        for name, implied in (("seeds", seeds), ("screening", 0)):
            # a dumped study names these values
            if values.get(name, implied) != implied:
                raise ValueError(
                    f"seeds_until sets the seeds, and trains all to the end; leave out {name}"
                )
        return {**values, "seeds": seeds}

    @field_validator("checkpoints")
    @classmethod
    def _countable(cls, checkpoints: int | list[int]) -> int | list[int]:
        if isinstance(checkpoints, int):
            countable = 1 <= checkpoints <= MOST_CHECKPOINTS
        else:
            countable = bool(checkpoints)
        if not countable:
            raise ValueError(
                f"it must be a number from 1 to {MOST_CHECKPOINTS:,}, or a list of token counts"
            )
        if isinstance(checkpoints, int):
            return checkpoints
        return distinct(checkpoints, "checkpoints")

    @model_validator(mode="after")
    def _has_checkpoints_in_one_way(self) -> Training:
        # a dumped study names the default, too
        default = type(self).model_fields["checkpoints"].default
        if self.checkpoint_every and self.checkpoints != default:
            raise ValueError(
                "checkpoints and checkpoint_every set the same thing; give one of them"
            )
        if self.checkpoint_every and self.tokens / self.checkpoint_every > MOST_CHECKPOINTS:
            raise ValueError(
                f"checkpoint_every={self.checkpoint_every:,} makes more than {MOST_CHECKPOINTS:,}"
                " checkpoints; give a larger number"
            )
        return self

    @model_validator(mode="after")
    def _accepted_by_the_trainer(self) -> Training:
        if self.batch_tokens % self.sequence_length:
            raise ValueError(
                f"batch_tokens={self.batch_tokens:,} must be a multiple of"
                f" sequence_length={self.sequence_length:,}, because a step reads whole rows"
            )
        TrainingConfig(**self.recipe(0))
        steps = self.tokens / self.batch_tokens
        default = type(self).model_fields["warmup_steps"].default
        # twice, because a batch also holds padding; too long a default is only a warning
        if self.warmup_steps != default and self.warmup_steps >= 2 * steps:
            raise ValueError(
                f"warmup_steps={self.warmup_steps:,} is more than all steps of {self.tokens:,}"
                " tokens; give fewer"
            )
        return self

    @model_validator(mode="after")
    def _branches_end_apart(self) -> Training:
        least = 2 * self.batch_tokens
        for point, following in itertools.pairwise(self.points):
            if self.branches and following - point < least:
                raise ValueError(
                    f"branches: the checkpoints at {point:,} and {following:,} tokens are less than"
                    f" two optimiser steps ({least:,} tokens) apart, so that their branches may end"
                    " at the same tokens; name fewer checkpoints"
                )
        return self

    def recipe(self, seed: int) -> dict[str, Any]:
        """Return the fields of TrainingConfig for one seed."""
        kept = self.model_dump(include={*TrainingConfig.__dataclass_fields__}, exclude_none=True)
        return {**kept, "clip": self.clip, "seed": seed, "checkpoints": list(self.points)}

    def stop_at(self, seeds: int) -> int | None:
        """Return the tokens at which screening picks the best of a model's `seeds` seeds.

        None means that all seeds are trained to the end.
        """
        if seeds > 1 and self.screening > 0:
            return round(self.tokens * self.screening)
        return None

    @property
    def points(self) -> tuple[int, ...]:
        """The token counts of the checkpoints, in order; the last one is `tokens`."""
        if self.checkpoint_every:
            return (*range(self.checkpoint_every, self.tokens, self.checkpoint_every), self.tokens)
        if isinstance(self.checkpoints, int):
            count = self.checkpoints
            return tuple(round(self.tokens * number / count) for number in range(1, count + 1))
        before_the_end = {point for point in self.checkpoints if point < self.tokens}
        return (*sorted(before_the_end), self.tokens)
