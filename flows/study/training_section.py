"""The section `training` of a study file: one recipe for every model, seeds, and checkpoints."""

from __future__ import annotations

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
TUNED = ("learning_rate", "weight_decay", "decay")  # what can be searched; decay: of the schedule


GROWN = "one beyond is added where an edge is best"


class Tuning(Section):
    """A search over settings of the recipe, the same for every variant without its own.

    Where several settings are searched, every combination is trained.
    """

    learning_rate: Annotated[list[Positive], Distinct, AfterValidator(sorted)] | None = Field(
        None, min_length=2, description=f"rates; {GROWN}"
    )
    weight_decay: Annotated[list[Finite], Distinct, AfterValidator(sorted)] | None = Field(
        None, min_length=2, description=f"weight decays; {GROWN}"
    )
    decay: Annotated[list[Share], Distinct, AfterValidator(sorted)] | None = Field(
        None,
        min_length=2,
        description=f"shares `decay` of a schedule {{decay: ..., to: ...}}; {GROWN}",
    )
    seeds: Seeds = Field(min_length=1, description="of the search alone")
    tokens: int = Field(ge=1, description="of each training of the search")

    @model_validator(mode="after")
    def _searches_something(self) -> Tuning:
        if not self.grids:
            raise ValueError(
                f"tune: nothing to search; give a list of {', '.join(TUNED)}, or several of them"
            )
        return self

    @property
    def grids(self) -> dict[str, list[float]]:
        """The values of each setting that is searched, rising."""
        return {name: getattr(self, name) for name in TUNED if getattr(self, name) is not None}


class SeedsUntil(Section):
    """Add seeds to each model until the widest interval is narrow enough.

    Looks come at 4, 8, 16 and 24 seeds.
    """

    high_over_low: float = Field(
        gt=1, description="of every interval of the average accuracy, at which no seed is added"
    )
    most: int = Field(
        LOOKS[-1], gt=LOOKS[0], le=LOOKS[-1], description="seeds of each model, 0 to one less"
    )


NOT_OF_A_STUDY = ("seed", "raw_checkpoints", "optimizer_files")


class Training(settings_section(TrainingConfig, without=NOT_OF_A_STUDY)):
    """The settings of TrainingConfig, the same for every model, and what a study adds to them."""

    batch_tokens: int = Field(2**20, description="of one optimiser step, padding included")
    save_every_seconds: float = Field(60, description="between two states to resume from")
    checkpoints: int | list[int] = Field(
        12, description="how many, evenly spaced, or the token counts themselves"
    )
    checkpoint_every: int | None = Field(
        None,
        ge=1,
        description=(
            "tokens between checkpoints, in place of their number: a longer study keeps their"
            " places"
        ),
    )
    sequence_length: int = Field(4096, ge=8, le=LONGEST_SEQUENCE, description="tokens of a row")
    seeds: Seeds = Field(
        default=[0, 1], min_length=1, description="each model is trained once with each"
    )
    seeds_until: SeedsUntil | None = Field(
        None, description="in place of `seeds`: add some until intervals are narrow"
    )
    screening: float = Field(
        0.0, ge=0, lt=1, description="all seeds train this far, then the best; 0: all to the end"
    )
    tune: Tuning | None = Field(
        None,
        description="choose each model's learning rate, weight decay, decay on held-out text",
    )
    ranks: int | None = Field(
        None,
        ge=1,
        le=MOST_RANKS,
        description=(
            "processes that train a run together; default: the GPUs divided by the runs, else 1"
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, values: Any) -> Any:
        return spelled_out(values) if isinstance(values, dict) else values

    @model_validator(mode="before")
    @classmethod
    def _in_turn(cls, values: Any) -> Any:
        """Name the seeds of `seeds_until`: 0 to one less than the most."""
        until = values.get("seeds_until") if isinstance(values, dict) else None
        if not isinstance(until, dict):
            return values
        most = until.get("most", LOOKS[-1])
        seeds = [0]  # where `most` is wrong, its field says how
        if isinstance(most, int) and most > 0:
            seeds = list(range(most))
        for name, implied in (("seeds", seeds), ("screening", 0)):
            # a study that was dumped names them, as they are
            if values.get(name, implied) != implied:
                raise ValueError(
                    f"seeds_until says which seeds are trained, all to the end: leave out {name}"
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
                f"{checkpoints} checkpoints: give 1 to {MOST_CHECKPOINTS:,}, or a list of token"
                " counts"
            )
        if isinstance(checkpoints, int):
            return checkpoints
        return distinct(checkpoints, "checkpoints")

    @model_validator(mode="after")
    def _has_checkpoints_in_one_way(self) -> Training:
        # the default is no choice: a study that was dumped names it too
        default = type(self).model_fields["checkpoints"].default
        if self.checkpoint_every and self.checkpoints != default:
            raise ValueError(
                "checkpoints and checkpoint_every say the same in two ways: give one of them"
            )
        if self.checkpoint_every and self.tokens / self.checkpoint_every > MOST_CHECKPOINTS:
            raise ValueError(
                f"checkpoint_every={self.checkpoint_every:,}: more than {MOST_CHECKPOINTS:,}"
                " checkpoints"
            )
        return self

    @model_validator(mode="after")
    def _accepted_by_the_trainer(self) -> Training:
        if self.batch_tokens % self.sequence_length:
            raise ValueError(
                f"batch_tokens={self.batch_tokens:,} is no multiple of"
                f" sequence_length={self.sequence_length:,}: a step reads whole rows"
            )
        TrainingConfig(**self.recipe(0))
        steps = self.tokens / self.batch_tokens
        default = type(self).model_fields["warmup_steps"].default
        # twice as many, as a batch holds padding too; a default that is too long is a warning
        if self.warmup_steps != default and self.warmup_steps >= 2 * steps:
            raise ValueError(
                f"warmup_steps={self.warmup_steps:,} are more than {self.tokens:,} tokens take"
                " in all"
            )
        return self

    def recipe(self, seed: int) -> dict[str, Any]:
        """Return the fields of TrainingConfig for one seed."""
        kept = self.model_dump(include={*TrainingConfig.__dataclass_fields__}, exclude_none=True)
        return {**kept, "clip": self.clip, "seed": seed, "checkpoints": list(self.points)}

    def stop_at(self, seeds: int) -> int | None:
        """Return the tokens at which the race of a model with `seeds` seeds ends.

        None: all are trained to the end.
        """
        if seeds > 1 and self.screening > 0:
            return round(self.tokens * self.screening)
        return None

    @property
    def points(self) -> tuple[int, ...]:
        """Return the token counts at which checkpoints are taken; the last is the whole budget."""
        if self.checkpoint_every:
            return (*range(self.checkpoint_every, self.tokens, self.checkpoint_every), self.tokens)
        if isinstance(self.checkpoints, int):
            count = self.checkpoints
            return tuple(round(self.tokens * number / count) for number in range(1, count + 1))
        before_the_end = {point for point in self.checkpoints if point < self.tokens}
        return (*sorted(before_the_end), self.tokens)
