"""The cache of sequence attention: prefill and steps equal whole forwards, and misuse is refused."""

from __future__ import annotations

import pytest
import torch

from pipeline.errors import InputError
from tests.model.tiny_network import DR, DR_DA, VARIANTS, build, by_reference, random_tokens

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("config", VARIANTS)
def test_prefill_and_steps_equal_whole_forwards_for_rows_of_different_lengths(config):
    """The engine native leaves the padding out where single tokens are wanted: what is read and cached is the same."""
    model, tokens = build(config).eval(), random_tokens(3, 12)
    lengths, wanted = [5, 2, 7], [(0, 4), (2, 6), (2, 0), (1, 1), (0, 4)]
    padded = torch.zeros(3, 7, dtype=torch.long)
    for row, length in enumerate(lengths):
        padded[row, :length] = tokens[row, :length]
    places = torch.tensor([row * 7 + position for row, position in wanted])

    def whole(row, length):
        return model(tokens[row : row + 1, :length])[0]

    expected = torch.stack([whole(row, position + 1)[-1] for row, position in wanted])
    torch.testing.assert_close(model.logits(model.read(padded, torch.tensor(lengths), places)), expected)
    cache, other = (model.new_cache(3, 12) for _ in range(2))
    torch.testing.assert_close(model.logits(other.extend(padded, torch.tensor(lengths), wanted=places)), expected)
    prefill = model.logits(cache.extend(padded, torch.tensor(lengths)))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(prefill[row, :length], whole(row, length))
    for step in range(5):
        new = torch.stack([tokens[row, length + step] for row, length in enumerate(lengths)])[:, None]
        expected = torch.stack([whole(row, length + step + 1)[-1] for row, length in enumerate(lengths)])
        torch.testing.assert_close(model.logits(cache.extend(new))[:, 0], expected)
        stepped = model.logits(other.extend(new, wanted=torch.tensor([2, 0])))
        torch.testing.assert_close(stepped, expected[[2, 0]])
    assert cache.lengths.tolist() == other.lengths.tolist() == [10, 7, 12]


def in_parts(model, tokens, cuts, depth=None):
    """Logits of tokens that a cache reads in several parts."""
    cache = model.new_cache(len(tokens), tokens.shape[1], depth)
    parts = [cache.extend(part, depth=depth) for part in tokens.tensor_split(cuts, dim=1)]
    return model.logits(torch.cat(parts, dim=1))


def test_several_tokens_at_once_behind_a_filled_cache():
    model, tokens = build(DR_DA).eval(), random_tokens(2, 11)
    torch.testing.assert_close(in_parts(model, tokens, (4, 9)), model(tokens))
    torch.testing.assert_close(by_reference(in_parts, model, tokens, (4, 9)), model(tokens))


def test_a_cache_for_another_depth():
    model, tokens = build(DR_DA).eval(), random_tokens()
    torch.testing.assert_close(in_parts(model, tokens, (10,), depth=5), model(tokens, depth=5))


def test_a_full_cache_is_refused():
    cache, tokens = build(DR).new_cache(2, 12), random_tokens()
    cache.extend(tokens)
    with pytest.raises(InputError, match="room for 12 positions: 11 are filled, 2 more"):
        cache.extend(tokens[:, :2])
