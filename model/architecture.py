"""Describe a model by its sizes and switches: one frozen, checked record."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.settings import check_fields, check_rules, field_types

WHERE = "model configuration"  # how messages begin
LARGEST = 2**31 - 1  # of any size: beyond every machine, and within every kind of number
# Which attentions read the same input and are added together, in order: Eq. 4, Eq. 5 and Eq. 6.
MIXTURES: dict[str, tuple[tuple[str, ...], ...]] = {
    "sequential": (("depth",), ("sequence",), ("experts",)),
    "partial": (("depth", "sequence"), ("experts",)),
    "parallel": (("depth", "sequence", "experts"),),
}


@dataclass(frozen=True, kw_only=True)
class DreamerConfig:
    """Sizes and switches of one model.

    Raises InputError, naming field, value and rule, when the model cannot be built.
    """

    depth: int = 16
    recurrent: bool = False  # one layer iterated `depth` times instead of `depth` layers (section 3.7)
    depth_attention: bool = False  # section 3.4
    mixture: str = "partial"  # section 3.6
    vocabulary_size: int = 128256
    hidden_size: int = 1024
    query_heads: int = 16
    key_value_heads: int = 8
    head_size: int = 128
    depth_heads: int = 1
    depth_key_value_heads: int = 1
    depth_head_size: int = 128
    depth_window: int | None = None  # how many latest depths depth attention sees, the current one included; None: all
    experts: int = 32  # per layer; in all when recurrent
    active_experts: int = 8
    expert_size: int = 512
    routing_size: int = 128
    sequence_length: int = 4096
    shared_expert: bool = True  # in the attention mixtures of a recurrent model; merged weights (Eq. 8) have none
    rope_base: float = 10000.0
    depth_rope_base: float = 500.0
    expert_bias_rate: float = 1e-3
    attention_bias_rate: float = 1e-2
    norm_epsilon: float = 1e-6

    def __post_init__(self) -> None:
        types = field_types(DreamerConfig)
        check_fields(vars(self), types, WHERE)
        sizes = " ".join(name for name, kind in types.items() if kind == "int")
        rules = (
            (sizes, lambda value: 1 <= value <= LARGEST, f"must be at least 1, and at most {LARGEST}"),
            ("depth_window", lambda depths: depths is None or depths <= LARGEST, f"must be at most {LARGEST}"),
            ("mixture", MIXTURES.__contains__, f"must be one of {', '.join(MIXTURES)}"),
            (
                "query_heads",
                lambda heads: heads % self.key_value_heads == 0,
                f"must be a multiple of key_value_heads ({self.key_value_heads})",
            ),
            (
                "depth_heads",
                lambda heads: heads % self.depth_key_value_heads == 0,
                f"must be a multiple of depth_key_value_heads ({self.depth_key_value_heads})",
            ),
            ("expert_size", lambda size: size % 8 == 0, "must be a multiple of 8"),
            ("head_size", lambda size: size % 2 == 0, "must be a multiple of 2, as positions rotate pairs"),
            (
                "depth_head_size routing_size",
                lambda size: size % 4 == 0,
                "must be a multiple of 4, as one half of the rotated pairs turns backwards",
            ),
            ("active_experts", lambda count: count <= self.experts, f"must be at most experts ({self.experts})"),
            (
                "rope_base depth_rope_base",
                lambda base: 1 < base <= LARGEST,
                f"must be above 1, and at most {LARGEST:g}",
            ),
            ("expert_bias_rate attention_bias_rate", lambda rate: 0 <= rate <= 1, "must be from 0 to 1"),
            ("norm_epsilon", lambda epsilon: 1e-30 <= epsilon <= 1, "must be from 1e-30 to 1"),
        )
        check_rules(self, WHERE, rules)

    @property
    def variant(self) -> str:
        """The name used in results: 'LA', 'DR', 'DR+DA' (or 'LA+DA')."""
        return ("DR" if self.recurrent else "LA") + ("+DA" if self.depth_attention else "")

    @property
    def layers(self) -> int:
        """How many layers hold weights of their own."""
        return 1 if self.recurrent else self.depth

    @property
    def attention_experts(self) -> int:
        """Experts in each projection bank of sequence and depth attention; 0 where projections are plain (Table 3)."""
        return self.depth if self.recurrent else 0

    @property
    def order(self) -> tuple[tuple[str, ...], ...]:
        """The attentions in the order they are applied; those in one group read the same input (Eq. 4 to 6)."""
        groups = MIXTURES[self.mixture]
        if not self.depth_attention:
            groups = tuple(tuple(name for name in group if name != "depth") for group in groups)
        return tuple(group for group in groups if group)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values by field name, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DreamerConfig:
        """Build a configuration from JSON values; missing fields take their defaults, unknown ones raise InputError."""
        check_fields(values, field_types(cls), WHERE)
        return cls(**values)
