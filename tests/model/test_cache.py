"""The cache of sequence attention: prefill and steps equal whole forwards, and misuse is refused."""

from __future__ import annotations

import pytest
import torch

from model.generate import Cache, read
from pipeline.errors import InputError
from tests.model.tiny_network import DR, DR_DA, VARIANTS, build, by_reference, random_tokens

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("config", VARIANTS)
def test_prefill_and_steps_equal_whole_forwards_for_different_lengths(config):
    model, tokens = build(config).eval(), random_tokens(3, 12)
    prompts = [5, 2, 7]
    cache = Cache(config, 3, 12, dtype=torch.float64)
    padded = torch.zeros(3, 7, dtype=torch.long)
    for row, length in enumerate(prompts):
        padded[row, :length] = tokens[row, :length]
    prefill = model.logits(cache.extend(model, padded, torch.tensor(prompts)))
    for row, length in enumerate(prompts):
        torch.testing.assert_close(prefill[row, :length], model(tokens[row : row + 1, :length])[0])
    assert cache.lengths.tolist() == prompts
    for step in range(5):
        new = torch.stack([tokens[row, length + step] for row, length in enumerate(prompts)])[:, None]
        stepped = model.logits(cache.extend(model, new))
        for row, length in enumerate(prompts):
            whole = model(tokens[row : row + 1, : length + step + 1])
            torch.testing.assert_close(stepped[row, 0], whole[0, -1])


@pytest.mark.parametrize("config", VARIANTS)
def test_wanted_tokens_of_rows_of_different_lengths_and_steps_behind_these(config):
    """The engine native leaves the padding out: what is read and cached is that of whole forwards all the same."""
    model, tokens = build(config).eval(), random_tokens(3, 12)
    lengths, wanted = [5, 2, 7], [(0, 4), (2, 6), (2, 0), (1, 1), (0, 4)]
    padded = torch.zeros(3, 7, dtype=torch.long)
    for row, length in enumerate(lengths):
        padded[row, :length] = tokens[row, :length]
    places = torch.tensor([row * 7 + position for row, position in wanted])
    cache = Cache(config, 3, 9, dtype=torch.float64)
    found = cache.extend(model, padded, torch.tensor(lengths), wanted=places)
    without_cache = read(model, padded, torch.tensor(lengths), places)
    expected = torch.stack([model(tokens[row : row + 1, : position + 1])[0, -1] for row, position in wanted])
    torch.testing.assert_close(model.logits(found), expected)
    torch.testing.assert_close(model.logits(without_cache), expected)
    assert cache.lengths.tolist() == lengths
    new = torch.stack([tokens[row, length] for row, length in enumerate(lengths)])[:, None]
    stepped = model.logits(cache.extend(model, new, wanted=torch.tensor([2, 0])))
    expected = torch.stack([model(tokens[row : row + 1, : lengths[row] + 1])[0, -1] for row in (2, 0)])
    torch.testing.assert_close(stepped, expected)


def in_parts(model, tokens, cuts, depth=None):
    """Logits of tokens that a cache reads in several parts."""
    cache = Cache(model.config, len(tokens), tokens.shape[1], dtype=torch.float64, depth=depth)
    parts = [cache.extend(model, part, depth=depth) for part in tokens.tensor_split(cuts, dim=1)]
    return model.logits(torch.cat(parts, dim=1))


def test_several_tokens_at_once_behind_a_filled_cache():
    model, tokens = build(DR_DA).eval(), random_tokens(2, 11)
    torch.testing.assert_close(in_parts(model, tokens, (4, 9)), model(tokens))
    torch.testing.assert_close(by_reference(in_parts, model, tokens, (4, 9)), model(tokens))


def test_a_cache_for_another_depth():
    model, tokens = build(DR_DA).eval(), random_tokens()
    torch.testing.assert_close(in_parts(model, tokens, (10,), depth=5), model(tokens, depth=5))


def test_a_full_cache_and_what_does_not_fit_are_refused():
    model, tokens = build(DR), random_tokens()
    cache = Cache(DR, 2, 12, dtype=torch.float64)
    cache.extend(model, tokens)
    with pytest.raises(InputError, match="room for 12 positions: 11 are filled, 2 more"):
        cache.extend(model, tokens[:, :2])
    with pytest.raises(InputError, match="depth 2 cannot use this cache: it is for depth 3"):
        cache.extend(model, tokens[:, :1], depth=2)
    with pytest.raises(InputError, match=r"lengths are \[3\], but for these tokens they must be \[2\]"):
        cache.extend(model, tokens[:, :1], torch.ones(3, dtype=torch.long))
