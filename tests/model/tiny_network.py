"""What the tests of the network share: tiny models away from their starting point, tokens, and all
their gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dreamer_study.model import ops
from dreamer_study.model.config import DreamerConfig
from dreamer_study.model.dreamer import Dreamer

TINY = DreamerConfig(
    depth=3,
    vocabulary_size=50,
    hidden_size=16,
    query_heads=4,
    key_value_heads=2,
    head_size=8,
    depth_heads=2,
    depth_key_value_heads=1,
    depth_head_size=8,
    experts=5,
    active_experts=2,
    expert_size=8,
    routing_size=8,
)
LA, LA_DA, DR, DR_DA = (
    dataclasses.replace(TINY, recurrent=recurrent, depth_attention=depth_attention)
    for recurrent in (False, True)
    for depth_attention in (False, True)
)
AROUND = {"depth": 5, "prelude": 1, "coda": 2}  # two iterations between own layers
FORMS = {
    "DR+own": dataclasses.replace(DR, **AROUND),
    "DR+DA+own": dataclasses.replace(DR_DA, **AROUND),
    "LA+pool": dataclasses.replace(LA, expert_pool=True),
    "DR+DA+own+pool": dataclasses.replace(DR_DA, **AROUND, expert_pool=True),
}
LATE = dataclasses.replace(FORMS["DR+DA+own"], recurrence_after=100)
VARIANTS = [
    *(pytest.param(config, id=config.variant) for config in (LA, LA_DA, DR, DR_DA)),
    *(pytest.param(config, id=name) for name, config in FORMS.items()),
]


def build(config: DreamerConfig, dtype: torch.dtype = torch.float64) -> Dreamer:
    """A model that is not at its special starting point: gains differ from 1, biases from 0."""
    torch.manual_seed(1)
    model = Dreamer(config).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("gain"):
                parameter.add_(0.3 * torch.randn_like(parameter))
            else:
                parameter.mul_(3)  # outputs that differ visibly between depths and experts
        for router in model.routers().values():
            router.bias.copy_(0.1 * torch.randn_like(router.bias))
    return model


def twin(model: Dreamer, **options) -> Dreamer:
    """The same weights with other options."""
    other = Dreamer(model.config, **options).to(model.embedding.dtype)
    other.load_state_dict(model.state_dict())
    return other


def counts_of(model: Dreamer) -> dict[str, Tensor]:
    """Selections [E] of each router in training since the last update of the balance."""
    return {name: router.counts.clone() for name, router in model.routers().items()}


def random_tokens(batch: int = 2, length: int = 11) -> Tensor:
    return torch.randint(
        0, TINY.vocabulary_size, (batch, length), generator=torch.Generator().manual_seed(2)
    )


def random_documents() -> Tensor:
    documents = torch.zeros(2, 11, dtype=torch.long)
    documents[0, 4:], documents[0, 9:] = 1, -1
    documents[1, 7:] = 5
    return documents


def by_reference(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a function returns when the reference computes it."""
    with ops.engine("reference"):
        return function(*arguments, **options)


def gradients(model: Dreamer, tokens: Tensor, **options) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits and all gradients of a loss in which every token and every logit takes part."""
    model.zero_grad()
    logits = model(tokens, **options)
    (F.cross_entropy(logits.flatten(0, 1), tokens.flatten()) + logits.square().mean()).backward()
    return logits.detach(), {
        name: parameter.grad.clone() for name, parameter in model.named_parameters()
    }


def assert_same_gradients(
    one: tuple[Tensor, dict[str, Tensor]], other: tuple[Tensor, dict[str, Tensor]], **tolerance
):
    torch.testing.assert_close(one[0], other[0], **tolerance)
    assert one[1].keys() == other[1].keys()
    for name in one[1]:
        torch.testing.assert_close(
            one[1][name], other[1][name], **tolerance, msg=lambda text, n=name: f"{n}: {text}"
        )


def assert_near(
    narrow: tuple[Tensor, dict[str, Tensor]], exact: tuple[Tensor, dict[str, Tensor]]
) -> None:
    """Where two scores are nearly equal bfloat16 may choose another expert: single tokens may
    differ, most must not."""
    error = (narrow[0].float() - exact[0].float()).abs().amax(dim=-1).flatten()
    assert (error / exact[0].float().abs().amax(dim=-1).flatten()).median() < 0.05
    gradients = (each[1]["embedding"].float().flatten() for each in (narrow, exact))
    assert F.cosine_similarity(*gradients, dim=0) > 0.97


def double(*shape: int) -> Tensor:
    """Normal numbers in float64 that want a gradient."""
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)
