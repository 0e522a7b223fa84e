"""Describe a model by its sizes and switches: one frozen, checked record."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.errors import InputError

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
        for field in dataclasses.fields(self):
            _check_field(self, field.name, field.type)
        rules = (
            ("mixture", self.mixture in MIXTURES, f"must be one of {', '.join(MIXTURES)}"),
            *_divisible(self, "query_heads", self.key_value_heads, "key_value_heads"),
            *_divisible(self, "depth_heads", self.depth_key_value_heads, "depth_key_value_heads"),
            *_divisible(self, "expert_size", 8),
            *_divisible(self, "head_size", 2, "2, as positions rotate pairs"),
            *_divisible(self, "depth_head_size", 4, "4, as one half of the rotated pairs turns backwards"),
            *_divisible(self, "routing_size", 4, "4, as one half of the rotated pairs turns backwards"),
            ("active_experts", self.active_experts <= self.experts, f"must be at most experts ({self.experts})"),
            ("rope_base", 1 < self.rope_base <= LARGEST, f"must be above 1, and at most {LARGEST:g}"),
            ("depth_rope_base", 1 < self.depth_rope_base <= LARGEST, f"must be above 1, and at most {LARGEST:g}"),
            ("expert_bias_rate", 0 <= self.expert_bias_rate <= 1, "must be from 0 to 1"),
            ("attention_bias_rate", 0 <= self.attention_bias_rate <= 1, "must be from 0 to 1"),
            ("norm_epsilon", 1e-30 <= self.norm_epsilon <= 1, "must be from 1e-30 to 1"),
        )
        for name, holds, rule in rules:
            if not holds:
                raise InputError(f"model configuration: {name} is {getattr(self, name)!r}, but it {rule}")

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
        """Plain values by field name, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DreamerConfig:
        """The inverse of `to_dict`; missing fields take their defaults, unknown ones raise InputError."""
        refuse_unknown(values)
        return cls(**values)


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "bool": (lambda value: isinstance(value, bool), "must be true or false"),
    "int": (lambda value: _is_size(value), f"must be a whole number of at least 1 and at most {LARGEST}"),
    "int | None": (
        lambda value: value is None or _is_size(value),
        f"must be a whole number of at least 1 and at most {LARGEST}, or left out",
    ),
    "float": (lambda value: _is_integer(value) or isinstance(value, float), "must be a number"),
    "str": (lambda value: isinstance(value, str), "must be text"),
}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return _is_integer(value) and 1 <= value <= LARGEST


def _check_field(config: DreamerConfig, name: str, kind: str) -> None:
    holds, rule = _CHECKS[kind]
    value = getattr(config, name)
    if not holds(value):
        raise InputError(f"model configuration: {name} is {value!r}, but it {rule}")


def _divisible(config: DreamerConfig, name: str, by: int, reason: str | None = None) -> list[tuple[str, bool, str]]:
    named = f"{reason} ({by})" if reason and reason.isidentifier() else reason or str(by)
    return [(name, getattr(config, name) % by == 0, f"must be a multiple of {named}")]


def refuse_unknown(values: Mapping[str, Any]) -> None:
    """Raise InputError for names that are no fields, with the nearest field."""
    known = [field.name for field in dataclasses.fields(DreamerConfig)]
    for name in values:
        if name not in known:
            nearest = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else f"; known are {', '.join(known)}"
            raise InputError(f"model configuration: there is no field {name!r}{hint}")
