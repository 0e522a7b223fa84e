"""The atlas's own architectures compute what their papers say, and see no later token."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.docs.scripts import script

OWN = script("atlas/studies/own.py")
VOCABULARY, LENGTH = 11, 6


def model(name: str, **config: int) -> nn.Module:
    torch.manual_seed(0)
    return getattr(OWN, name)(VOCABULARY, LENGTH, **config).eval()


@pytest.mark.parametrize("name", ["LSTM", "MinGRU", "LoopedLlama"])
def test_a_later_token_changes_no_earlier_logit(name: str) -> None:
    made = model(name)
    tokens = torch.arange(LENGTH)[None]
    other = tokens.clone()
    other[0, 3] += 1
    with torch.no_grad():
        logits, changed = made(tokens), made(other)
    assert logits.shape == (1, LENGTH, VOCABULARY)
    torch.testing.assert_close(logits[:, :3], changed[:, :3])
    assert not torch.allclose(logits[:, 3:], changed[:, 3:])


def test_the_recurrence_of_the_minimal_gru_is_its_loop() -> None:
    """h_t = (1 - z_t) h_(t-1) + z_t g(c_t), from h = 0 on."""
    torch.manual_seed(0)
    gate, candidate = 3 * torch.randn(2, 2, 5, 4).double()

    def positive(values: Tensor) -> Tensor:
        return torch.where(values >= 0, values + 0.5, torch.sigmoid(values))

    states = []
    state = torch.zeros(2, 4).double()
    for position in range(5):
        taken = torch.sigmoid(gate[:, position])
        state = (1 - taken) * state + taken * positive(candidate[:, position])
        states.append(state)
    torch.testing.assert_close(OWN.recurrence(gate, candidate), torch.stack(states, dim=1))


def test_a_looped_llama_passes_its_one_layer_again() -> None:
    once, twice = model("LoopedLlama", loops=1), model("LoopedLlama", loops=2)
    assert sum(p.numel() for p in once.parameters()) == sum(p.numel() for p in twice.parameters())
    calls = []
    twice.layer.register_forward_hook(lambda *_: calls.append(1))
    tokens = torch.arange(LENGTH)[None]
    with torch.no_grad():
        assert not torch.allclose(once(tokens), twice(tokens))
    assert len(calls) == 2
