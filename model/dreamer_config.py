"""Describe a model by its sizes and switches: one frozen, checked record."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from pydantic import Field, model_validator

from dreamer_study.pipeline.settings import checked

LARGEST = 2**31 - 1  # of any size: beyond every machine, and within every type of number
Size = Annotated[int, Field(ge=1, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Tokens = Annotated[int, Field(ge=0)]
Even = Annotated[Size, Field(multiple_of=2)]  # positions rotate pairs
Fourfold = Annotated[Size, Field(multiple_of=4)]  # one half of the rotated pairs turns backwards
Base = Annotated[float, Field(gt=1, le=LARGEST)]
Rate = Annotated[float, Field(ge=0, le=1)]
# Which attentions read the same input and are added together, in order: Eq. 4, Eq. 5 and Eq. 6.
MIXTURES: dict[str, tuple[tuple[str, ...], ...]] = {
    "sequential": (("depth",), ("sequence",), ("experts",)),
    "partial": (("depth", "sequence"), ("experts",)),
    "parallel": (("depth", "sequence", "experts"),),
}
# Fields that came later: a model that leaves them at their defaults is described, and its runs are
# named, as before there were these fields.
LATER = ("prelude", "coda", "expert_pool", "recurrence_after")


@checked("model configuration")
class DreamerConfig:
    """Sizes and switches of one model.

    Raises InputError, naming field, value and rule, when the model cannot be built.
    """

    depth: Size = 16
    """Layers, or iterations of the one layer of a recurrent model."""
    recurrent: bool = False
    """Iterate one layer `depth` times in place of `depth` layers (section 3.7 of the paper)."""
    depth_attention: bool = False
    """Add attention over the depths of a token (section 3.4)."""
    mixture: str = "partial"
    """Order of the attentions and the experts in a layer: partial, sequential or parallel (section
    3.6).
    """
    vocabulary_size: Size = 128256
    """Tokens of the vocabulary."""
    hidden_size: Size = 1024
    """Numbers of a hidden state."""
    query_heads: Size = 16
    """Heads of queries in attention along the sequence."""
    key_value_heads: Size = 8
    """Heads of keys and values in attention along the sequence; queries share them in groups."""
    head_size: Even = 128
    """Numbers of a head in attention along the sequence."""
    depth_heads: Size = 1
    """Heads of queries in attention over depths."""
    depth_key_value_heads: Size = 1
    """Heads of keys and values in attention over depths."""
    depth_head_size: Fourfold = 128
    """Numbers of a head in attention over depths."""
    depth_window: Size | None = None
    """Latest depths that attention over depths sees, the current one included; null: all."""
    experts: Size = 32
    """Experts of each layer; of the whole model where it is recurrent."""
    active_experts: Size = 8
    """Experts that each token uses at each depth."""
    expert_size: Annotated[Size, Field(multiple_of=8)] = 512
    """Inner size of an expert."""
    routing_size: Fourfold = 128
    """Numbers of the queries and keys by which experts are chosen."""
    sequence_length: Size = 4096
    """Tokens of the longest sequence."""
    shared_expert: bool = True
    """A shared expert in the attention mixtures of a recurrent model; merged weights (Eq. 8) have
    none.
    """
    rope_base: Base = 10000.0
    """Base of the rotary code of positions."""
    depth_rope_base: Base = 500.0
    """Base of the rotary code of depths."""
    expert_bias_rate: Rate = 1e-3
    """Step by which the biases that balance the experts change."""
    attention_bias_rate: Rate = 1e-2
    """Step by which the biases that balance the attention mixtures change."""
    norm_epsilon: Annotated[float, Field(gt=0, le=1)] = 1e-6
    """What every RMSNorm adds to the mean square."""
    prelude: Count = 0
    """Layers of their own before the recurrent layer; `depth` counts them."""
    coda: Count = 0
    """Layers of their own after the recurrent layer; `depth` counts them."""
    expert_pool: bool = False
    """One pool of experts for all layers; attention and router are each layer's own (UniPool)."""
    recurrence_after: Tokens = 0
    """Tokens of training after which the recurrent layer is iterated; before, it is used once."""

    @model_validator(mode="after")
    def _fits(self) -> DreamerConfig:
        if self.mixture not in MIXTURES:
            raise ValueError(
                f"mixture is {self.mixture!r}, but it must be one of {', '.join(MIXTURES)}"
            )
        for key_heads, query_heads in (
            ("key_value_heads", "query_heads"),
            ("depth_key_value_heads", "depth_heads"),
        ):
            queries = getattr(self, query_heads)
            keys = getattr(self, key_heads)
            if queries % keys:  # each key head serves as many query heads as the others
                raise ValueError(
                    f"{query_heads} is {queries}, but it must be a multiple of {key_heads} ({keys})"
                )
        if self.active_experts > self.experts:
            raise ValueError(
                f"active_experts is {self.active_experts}, but it must be at most experts"
                f" ({self.experts})"
            )
        return self

    @model_validator(mode="after")
    def _has_a_form(self) -> DreamerConfig:
        own = self.prelude + self.coda
        for name in ("prelude", "coda", "recurrence_after"):
            if getattr(self, name) and not self.recurrent:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, but only a recurrent model has one"
                )
        if own and own >= self.depth:
            raise ValueError(
                f"prelude and coda are {self.prelude} and {self.coda}, but together they must be"
                f" less than depth ({self.depth})"
            )
        if self.expert_pool and self.layers == 1 and self.recurrent:
            raise ValueError(
                "expert_pool is True, but a recurrent model without prelude and coda has one pool"
                " of experts already"
            )
        return self

    @property
    def variant(self) -> str:
        """The name used in results: 'LA', 'DR', 'DR+DA' (or 'LA+DA')."""
        name = "DR" if self.recurrent else "LA"
        return f"{name}+DA" if self.depth_attention else name

    @property
    def plain_layers(self) -> int:
        """How many layers are those of LA: all, or prelude and coda."""
        return self.prelude + self.coda if self.recurrent else self.depth

    @property
    def layers(self) -> int:
        """How many layers hold weights of their own, the recurrent one included."""
        return self.plain_layers + self.recurrent

    @property
    def iterations(self) -> int:
        """How often the recurrent layer is applied; 0 in a layered model."""
        return self.depth - self.plain_layers

    @property
    def pools(self) -> int:
        """How many sets of experts there are: one for each layer, or one for all."""
        return 1 if self.expert_pool else self.layers

    @property
    def attention_experts(self) -> int:
        """Experts in each bank of projections (Table 3); 0 where projections are plain."""
        return self.iterations

    @property
    def order(self) -> tuple[tuple[str, ...], ...]:
        """The attentions in the order they are applied (Eq. 4 to 6).

        Those in one group read the same input.
        """
        groups = []
        for group in MIXTURES[self.mixture]:
            names = tuple(name for name in group if name != "depth" or self.depth_attention)
            if names:
                groups.append(names)
        return tuple(groups)

    def other_depths(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """Return which of the wanted depths a trained model can run at besides its own.

        If the model is recurrent all that leave its recurrent layer a pass or more, else none; none
        either where its recurrence begins late, as what it has been trained at is the question.
        """
        if not self.recurrent or self.recurrence_after:
            return ()
        least = self.plain_layers + 1
        return tuple(depth for depth in wanted if depth != self.depth and depth >= least)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values by field name, for JSON.

        Fields that came `LATER` are there where they differ from their defaults.
        """
        values = dataclasses.asdict(self)
        for field in dataclasses.fields(self):
            if field.name in LATER and values[field.name] == field.default:
                del values[field.name]
        return values
