"""Configurations: what is refused, and what a variant is."""

from __future__ import annotations

import dataclasses

import pytest

from dreamer_study.model.config import DreamerConfig, dr, dr_da, la
from dreamer_study.pipeline.errors import InputError


@pytest.mark.parametrize(
    ("field", "values"),
    {
        "depth": (0, 2.5, True),
        "hidden_size": (-64, 2**31),
        "vocabulary_size": ("many",),
        "query_heads": (15,),
        "depth_key_value_heads": (3,),
        "expert_size": (500,),
        "head_size": (33,),
        "depth_head_size": (30,),
        "routing_size": (6,),
        "active_experts": (33,),
        "mixture": ("serial",),
        "recurrent": (1,),
        "depth_window": (0, 2**31),
        "rope_base": (1.0, 10**400),
        "norm_epsilon": (0.0, float("inf")),
        "expert_bias_rate": (float("nan"), -0.1, 1.1),
    }.items(),
)
def test_what_cannot_be_built_is_refused_by_name(field, values):
    for value in values:
        with pytest.raises(InputError, match=f"^model configuration: .*{field}") as error:
            DreamerConfig(**{field: value})
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "switch", "value"),
    [(la, "recurrent", True), (dr, "recurrent", False), (dr_da, "depth_attention", False)],
)
def test_a_variant_is_what_its_name_says(make, switch, value):
    with pytest.raises(InputError, match=rf"{switch} is {value}, but in {make.__name__}\(\) it"):
        make(4, **{switch: value})


def test_orders_are_equations_4_to_6():
    def order(mixture, depth_attention=True):
        return DreamerConfig(mixture=mixture, depth_attention=depth_attention).order

    assert order("sequential") == (("depth",), ("sequence",), ("experts",))
    assert order("partial") == (("depth", "sequence"), ("experts",))
    assert order("parallel") == (("depth", "sequence", "experts"),)
    assert order("sequential", depth_attention=False) == (("sequence",), ("experts",))


def test_a_variant_is_matched_to_its_baseline_or_has_given_sizes():
    baseline = la(4, hidden_size=512, active_experts=2)
    matched = dr_da(baseline=baseline)
    assert (matched.depth, matched.hidden_size, matched.active_experts) == (4, 512, 2)
    assert matched == dr_da(4, baseline=baseline, active_experts=2)
    assert dr(4, hidden_size=512, vocabulary_size=512) == dr(
        4, baseline=la(4, hidden_size=512, vocabulary_size=512)
    )
    sizes = {"experts": 15, "expert_size": 32}
    given = dataclasses.replace(baseline, recurrent=True, depth_attention=True, **sizes)
    assert dr_da(baseline=baseline, **sizes) == given
    assert dr_da(8, baseline=baseline, **sizes) == dataclasses.replace(given, depth=8)
    assert dr(4, **sizes) == dataclasses.replace(la(4), recurrent=True, **sizes)
    with pytest.raises(InputError, match="depth is 0"):
        dr(0, baseline=baseline)
