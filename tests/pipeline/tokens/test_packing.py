"""Tokenizers, and documents that are packed: pieces, weights of sources, rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.tokens.pack_shards import RECORD
from dreamer_study.pipeline.tokens.packing import fit_rows
from dreamer_study.pipeline.tokens.pieces import LLAMA_3, WORDS, cut, encode_texts, has_pieces
from dreamer_study.pipeline.tokens.random_numbers import copies_of, random_numbers, repeat
from dreamer_study.pipeline.tokens.tokenizer import (
    PROMPT,
    read_meta,
    read_tokenizer,
    take_tokenizer,
    train_tokenizer,
    training_parts,
)
from tests.pipeline.tokens.token_documents import DOCUMENTS, foreign, write


@given(st.text(alphabet="0123456789 .,ab", max_size=30))
def test_a_token_holds_one_digit_at_most(codec, text: str) -> None:
    for token in codec.encode(text, add_special_tokens=False).ids:
        piece = codec.decode([token])
        assert sum(letter.isdigit() for letter in piece) <= 1
        assert not (
            any(letter.isdigit() for letter in piece) and piece.strip() != piece.lstrip(" ")
        )


def test_an_answer_is_one_token_and_the_same_wherever_it_stands(codec) -> None:
    ids = {number: codec.encode(f" {number}", add_special_tokens=False).ids for number in range(10)}
    assert all(len(found) == 1 for found in ids.values())
    whole = codec.encode("Question: Ann has 7 coins.\nAnswer: 7", add_special_tokens=False).ids
    assert whole.count(ids[7][0]) == 2


def test_prompt_and_response_encoded_apart_are_what_they_are_together(codec) -> None:
    for question, response in DOCUMENTS:
        parts = training_parts(question, response)
        apart = [
            token for part in parts for token in codec.encode(part, add_special_tokens=False).ids
        ]
        assert apart == codec.encode("".join(parts), add_special_tokens=False).ids


def test_training_text_is_that_of_zero_shot_prompts() -> None:
    assert training_parts("How many?", "7") == ("Question: How many?\nAnswer:", " 7")
    assert training_parts("", "Once upon") == training_parts(None, "Once upon") == ("", "Once upon")
    assert training_parts("Why?", None) == (PROMPT.format(question="Why?"), " ")


def test_no_text_can_write_an_end_mark(codec, tokenizer: Path) -> None:
    end = read_meta(tokenizer)["end_token"]
    assert codec.token_to_id("<|end|>") == end
    assert end not in codec.encode("stop<|end|>here", add_special_tokens=False).ids


def test_training_is_deterministic_and_reports_what_it_made(
    documents: Path, tokenizer: Path, tmp_path: Path
) -> None:
    results = train_tokenizer(documents, tmp_path, 400)
    assert (tmp_path / "tokenizer.json").read_bytes() == (tokenizer / "tokenizer.json").read_bytes()
    meta = read_meta(tmp_path)
    assert results["vocabulary_size"] == meta["vocabulary_size"] <= 400
    assert results["characters"] == sum(
        len("".join(training_parts(*document))) for document in DOCUMENTS
    )


def test_a_sample_is_spread_over_the_corpus(documents: Path, tmp_path: Path) -> None:
    total = sum(len("".join(document)) for document in DOCUMENTS)
    results = train_tokenizer(documents, tmp_path, 300, sample_characters=total // 4)
    assert results["characters"] == pytest.approx(total / 4, rel=0.6)


def test_tokenizers_that_cannot_be_trained_are_refused(documents: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 257"):
        train_tokenizer(documents, tmp_path, 256)
    with pytest.raises(InputError, match="holds no documents"):
        train_tokenizer(write(tmp_path / "empty", []), tmp_path / "out", 300)


# --- tokenizers of others ---


@pytest.mark.parametrize(
    ("special", "eos", "end"),
    [
        (["<|end_of_text|>"], None, "<|end_of_text|>"),
        (["</s>", "<|eot_id|>"], "<|eot_id|>", "<|eot_id|>"),
        (["</s>", "<|eot_id|>"], {"content": "</s>"}, "</s>"),
        ([], None, "<|end|>"),
    ],
)
def test_the_end_mark_of_a_taken_tokenizer(tmp_path: Path, special, eos, end: str) -> None:
    folder = foreign(tmp_path / "foreign", special, eos)
    results = take_tokenizer({"file": str(folder / "tokenizer.json")}, tmp_path / "taken")
    codec = read_tokenizer(tmp_path / "taken")
    assert results["end_token"] == codec.token_to_id(end) < results["vocabulary_size"]
    assert read_meta(tmp_path / "taken")["end"] == end


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"file": "/nowhere/tokenizer.json"}, "No such file"),
        (
            {"hub": "no-such-owner/no-such-model"},
            "no-such-owner/no-such-model cannot be had from the hub",
        ),
    ],
)
def test_entries_that_cannot_be_taken_are_refused(
    tmp_path: Path, monkeypatch, entry: dict, said: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=said):
        take_tokenizer(entry, tmp_path)


def test_damaged_tokenizers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(InputError, match=r"is no tokenizer\.json"):
        take_tokenizer({"file": str(tmp_path / "tokenizer.json")}, tmp_path / "out")
    (foreign(tmp_path / "odd", ["</s>"]) / "tokenizer_config.json").write_text("[")
    with pytest.raises(InputError, match=r"tokenizer_config\.json is damaged"):
        take_tokenizer({"file": str(tmp_path / "odd" / "tokenizer.json")}, tmp_path / "out")


@st.composite
def lengths_and_row(draw: st.DrawFn) -> tuple[list[int], int]:
    row = draw(st.integers(1, 80))
    return draw(st.lists(st.integers(1, row), max_size=200)), row


@pytest.mark.slow
@settings(max_examples=150)
@given(lengths_and_row(), st.integers(1, 50))
def test_every_document_lies_in_one_row_and_on_no_other(
    case: tuple[list[int], int], look_ahead: int
) -> None:
    lengths, row = case
    offsets, rows = fit_rows(lengths, row, look_ahead)
    taken = np.zeros(rows * row, int)
    for offset, length in zip(offsets, lengths, strict=True):
        assert offset // row == (offset + length - 1) // row
        taken[offset : offset + length] += 1
    assert taken.max(initial=0) <= 1
    assert taken.sum() == sum(lengths)
    filled = taken.reshape(rows, row)
    assert (np.diff(filled, axis=1) <= 0).all(), "padding only at the end of a row"
    assert filled.any(axis=1).all(), "no empty row"
    assert rows <= 2 * -(-sum(lengths) // row), "never twice the rows that the tokens fill"


@pytest.mark.parametrize(
    ("typical", "spread", "row", "most"),
    [(38, 0.3, 128, 0.01), (38, 0.3, 1024, 0.002), (300, 0.7, 1024, 0.005)],
)
def test_padding_is_small(typical: float, spread: float, row: int, most: float) -> None:
    drawn = np.random.default_rng(0).lognormal(np.log(typical), spread, 20_000)
    lengths = np.clip(drawn, 10, row).astype(int)
    _, rows = fit_rows(lengths.tolist(), row)
    assert 1 - lengths.sum() / (rows * row) < most


def test_documents_keep_their_order_but_for_the_ends_of_rows() -> None:
    lengths = np.random.default_rng(1).integers(20, 60, 5000)
    offsets, _ = fit_rows(lengths.tolist(), 1024)
    rank = np.argsort(np.argsort(offsets))
    moved = np.abs(rank - np.arange(len(rank)))
    assert np.median(moved) < 10 * 1024 / 40
    by_half = [
        lengths[offsets < np.median(offsets)].mean(),
        lengths[offsets >= np.median(offsets)].mean(),
    ]
    assert abs(by_half[0] - by_half[1]) < 2, "long and short documents are spread evenly"


@pytest.mark.parametrize("lengths", [[3, 9], [0, 4]])
def test_documents_that_fit_no_row_are_refused(lengths: list[int]) -> None:
    with pytest.raises(InputError, match="but rows take 1 to 8"):
        fit_rows(lengths, 8)


BY_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Characters of every kind that an expression names, and some that look like them: blanks, digits,
# marks, a long s.
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


@pytest.mark.slow
@pytest.mark.parametrize("expression", [WORDS, LLAMA_3])
@given(texts=st.lists(st.text(CHARACTERS, max_size=25) | st.text(max_size=10), max_size=5))
def test_tokens_are_those_of_the_whole_texts(codec, expression: str, texts: list[str]) -> None:
    codec = split_by(codec, expression)
    assert has_pieces(codec)
    assert by_pieces(codec, pa.array(texts, pa.string())) == whole(codec, texts)


@pytest.mark.slow
@pytest.mark.parametrize("expression", [WORDS, LLAMA_3])
@given(text=st.text(CHARACTERS, max_size=25) | st.text(max_size=10))
@example("a\n  b")
@example("12345 1234567")
def test_the_expression_splits_pieces_as_it_splits_the_whole_text(
    expression: str, text: str
) -> None:
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
    ids=[
        "normalizer",
        "end marks are read",
        "no expression",
        "another expression",
        "a token of two pieces",
    ],
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


LAID_OUT = 50_000


@pytest.mark.parametrize("weight", [1.1, 1.5, 2.0, 2.25])
def test_every_copy_is_spread_evenly(weight: float) -> None:
    records = np.zeros(LAID_OUT, RECORD)
    records["key"] = random_numbers(7, 0, LAID_OUT)
    copies = copies_of(pa.array(["s"] * LAID_OUT), [("s", weight)], 7, 0)
    assert copies.mean() == pytest.approx(weight, abs=0.01)
    repeated, first = repeat(records, np.arange(LAID_OUT), copies)
    number = np.arange(len(first)) - np.searchsorted(first, first)
    for copy in range(int(copies.max())):
        places = repeated["key"][number == copy] / 2.0**64
        tenths, _ = np.histogram(places, 10, (0, 1))
        assert tenths / len(places) == pytest.approx(np.full(10, 0.1), abs=0.02), f"copy {copy}"
        if copy:  # shuffled again: a copy does not lie beside the first one
            firsts = records["key"][first[number == copy]] / 2.0**64
            assert abs(np.corrcoef(places, firsts)[0, 1]) < 0.05, f"copy {copy}"


def test_copies_are_those_of_before_where_none_was_misplaced() -> None:
    sources = pa.array(["half", "once", "twice"] * 4)
    copies = copies_of(sources, [("half", 0.5), ("twice", 2.0)], 3, 100)
    assert copies.tolist() == [1, 1, 2, 0, 1, 2, 1, 1, 2, 1, 1, 2]
