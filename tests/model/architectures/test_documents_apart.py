"""A class that does not know documents is trained as one that does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dreamer_study.model.architectures.documents_apart import read_apart
from dreamer_study.model.architectures.wrapped import Wrapped
from dreamer_study.model.ops import Documents
from tests.model.test_contract import described, random_tokens


class Plain(nn.Module):
    """One layer of causal attention with positions of its own, that knows no documents."""

    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.tokens = nn.Embedding(32, size)
        self.places = nn.Embedding(64, size)
        self.mixed = nn.Linear(size, 3 * size)
        self.head = nn.Linear(size, 32)

    def attend(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self.mixed(x).chunk(3, -1)
        scores = (query @ key.transpose(-1, -2)).masked_fill(~mask, -torch.inf)
        return self.head(x + scores.softmax(-1) @ value)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.places.weight[:length]
        return self.attend(x, torch.ones(length, length, dtype=torch.bool).tril())


class Knowing(Plain):
    """The same, with the documents of a row kept apart by a mask."""

    def forward(
        self, tokens: Tensor, documents: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        if documents is None:
            return super().forward(tokens)
        x = self.tokens(tokens) + self.places(positions)
        same = documents[:, :, None] == documents[:, None, :]
        return self.attend(x, same.tril())


def network(kind: type[Plain]) -> Wrapped:
    torch.manual_seed(5)
    return Wrapped(kind(), described("Mean", {}, length=40))


LABELS = torch.tensor(
    [[0] * 7 + [1] * 20 + [2] * 3 + [3] * 10, [4] * 40, [5] * 1 + [6] * 29 + [-1] * 10]
)


def test_losses_and_gradients_are_those_of_the_class_that_knows_documents() -> None:
    tokens = random_tokens(3, 40)
    real = LABELS >= 0
    outcomes: list[tuple[Tensor, list[Any]]] = []
    for kind in (Plain, Knowing):
        model = network(kind)
        states = model.states(tokens, Documents(tokens, LABELS))[real]
        loss = model.loss(states, tokens[real])
        loss.backward()
        outcomes.append((loss, [parameter.grad for parameter in model.parameters()]))
    (loss, gradients), (expected_loss, expected) = outcomes
    assert loss.item() == pytest.approx(expected_loss.item(), rel=1e-5)
    for gradient, one_expected in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, one_expected, rtol=1e-4, atol=1e-5)


def test_joined_rows_differ_from_documents_apart() -> None:
    tokens = random_tokens(3, 40)
    model = network(Plain)
    apart = model.states(tokens, Documents(tokens, LABELS))
    assert not torch.allclose(apart[0], model.states(tokens)[0])
    torch.testing.assert_close(apart[1], model.states(tokens)[1])  # one document fills the row


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=6), min_size=1, max_size=4))
def test_every_document_is_read_once_from_its_start(lengths: list[list[int]]) -> None:
    longest = max(sum(row) for row in lengths)
    labels = torch.full((len(lengths), longest), -1)
    for row, of_row in enumerate(lengths):
        end = 0
        for number, length in enumerate(of_row):
            labels[row, end : end + length] = number
            end += length
    tokens = torch.arange(labels.numel()).view(labels.shape) % 97 + 1

    def read(documents: Tensor) -> Tensor:
        """Count the tokens so far, and sum them: what a causal model could know."""
        counts = torch.arange(1, documents.shape[1] + 1).expand(documents.shape)
        return torch.stack([counts, documents.cumsum(1)], -1).double()

    found = read_apart(read, tokens, labels)
    for row, of_row in enumerate(lengths):
        end = 0
        for length in of_row:
            document = tokens[row, end : end + length]
            assert found[row, end : end + length, 0].tolist() == list(range(1, length + 1))
            assert found[row, end : end + length, 1].tolist() == document.cumsum(0).tolist()
            end += length
        assert (found[row, end:] == 0).all()
