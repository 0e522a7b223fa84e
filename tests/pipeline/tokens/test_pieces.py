"""Encoding by pieces: the tokens are those of the whole texts, whatever the texts and the tokenizer."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers

from pipeline.tokens.pieces import LLAMA_3, WORDS, cut, encode_texts, has_pieces

BY_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Characters of every kind that an expression names, and some that look like them: blanks, digits, marks, a long s.
CHARACTERS = "aZ'st 09 \t\n\r\x0b ._(\\$\u00a0\u0301\u017f\u00e9\u0663\u4e2d\u2028<|end|>"


def split_at(expression: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), BY_BYTES])


def split_by(codec: Tokenizer, expression: str) -> Tokenizer:
    """Copy a tokenizer, with another expression that splits texts."""
    other = Tokenizer.from_str(codec.to_str())
    other.encode_special_tokens = True
    other.pre_tokenizer = split_at(expression)
    return other


def whole(codec: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [codec.encode(text, add_special_tokens=False).ids for text in texts]


def by_pieces(codec: Tokenizer, texts: pa.Array) -> list[list[int]]:
    tokens, offsets = encode_texts(codec, texts)
    assert len(offsets) == len(texts) + 1
    assert offsets[-1] == len(tokens)
    return [tokens[start:stop].tolist() for start, stop in pairwise(offsets)]


@pytest.mark.parametrize("expression", [WORDS, LLAMA_3])
@given(texts=st.lists(st.text(CHARACTERS, max_size=25) | st.text(max_size=10), max_size=5))
def test_tokens_are_those_of_the_whole_texts(codec, expression: str, texts: list[str]) -> None:
    codec = split_by(codec, expression)
    assert has_pieces(codec)
    assert by_pieces(codec, pa.array(texts, pa.string())) == whole(codec, texts)


@pytest.mark.parametrize("expression", [WORDS, LLAMA_3])
@given(text=st.text(CHARACTERS, max_size=25) | st.text(max_size=10))
@example("a\n  b")
@example("12345 1234567")
def test_the_expression_splits_pieces_as_it_splits_the_whole_text(expression: str, text: str) -> None:
    split = pre_tokenizers.Split(Regex(expression), "isolated")
    pieces, _ = cut(pa.array([text], pa.string()))
    found = [part for piece in pieces.to_pylist() for part, _ in split.pre_tokenize_str(piece)]
    assert found == [part for part, _ in split.pre_tokenize_str(text)]


def test_a_part_of_a_column_is_encoded_as_the_column_is(codec) -> None:
    texts = ["Ann has 3 coins.", "", "She's 12.\n\nWhy?", "", "So: $x^2+1$", ""]
    for start in range(len(texts)):
        for stop in range(start, len(texts) + 1):
            assert by_pieces(codec, pa.array(texts)[start:stop]) == whole(codec, texts[start:stop])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("normalizer", normalizers.Replace("7 ", "8")),
        ("encode_special_tokens", False),
        ("pre_tokenizer", BY_BYTES),
        ("pre_tokenizer", split_at(GPT_2)),  # this expression looks from a line end at what follows
        ("added", AddedToken("7 coins", special=False)),
    ],
    ids=["normalizer", "end marks are read", "no expression", "another expression", "a token of two pieces"],
)
def test_a_tokenizer_that_joins_pieces_encodes_whole_texts(codec, name: str, value: object) -> None:
    codec = split_by(codec, WORDS)
    if name == "added":
        codec.add_tokens([value])
    else:
        setattr(codec, name, value)
    texts = ["Ann has 7 coins and 7 coins<|end|>", "7 coins", "One.\n\nTwo", "in 1999a"]
    assert not has_pieces(codec)
    assert by_pieces(codec, pa.array(texts)) == whole(codec, texts)
