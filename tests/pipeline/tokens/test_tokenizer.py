"""Tokenizers: trained and taken ones encode every text and give it back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.tokens.tokenizer import PROMPT, read_meta, read_tokenizer, take_tokenizer, train_tokenizer, training_parts
from tests.pipeline.tokens.token_documents import DOCUMENTS, foreign, write


@given(st.text(max_size=200))
def test_every_text_comes_back(codec, text: str) -> None:
    assert codec.decode(codec.encode(text, add_special_tokens=False).ids, skip_special_tokens=False) == text


@given(st.text(alphabet="0123456789 .,ab", max_size=30))
def test_a_token_holds_one_digit_at_most(codec, text: str) -> None:
    for token in codec.encode(text, add_special_tokens=False).ids:
        piece = codec.decode([token])
        assert sum(letter.isdigit() for letter in piece) <= 1
        assert not (any(letter.isdigit() for letter in piece) and piece.strip() != piece.lstrip(" "))


def test_an_answer_is_one_token_and_the_same_wherever_it_stands(codec) -> None:
    ids = {number: codec.encode(f" {number}", add_special_tokens=False).ids for number in range(10)}
    assert all(len(found) == 1 for found in ids.values())
    whole = codec.encode("Question: Ann has 7 coins.\nAnswer: 7", add_special_tokens=False).ids
    assert whole.count(ids[7][0]) == 2


def test_prompt_and_response_encoded_apart_are_what_they_are_together(codec) -> None:
    for question, response in DOCUMENTS:
        parts = training_parts(question, response)
        apart = [token for part in parts for token in codec.encode(part, add_special_tokens=False).ids]
        assert apart == codec.encode("".join(parts), add_special_tokens=False).ids


def test_training_text_is_that_of_zero_shot_prompts() -> None:
    assert training_parts("How many?", "7") == ("Question: How many?\nAnswer:", " 7")
    assert training_parts("", "Once upon") == training_parts(None, "Once upon") == ("", "Once upon")
    assert training_parts("Why?", None) == (PROMPT.format(question="Why?"), " ")


def test_no_text_can_write_an_end_mark(codec, tokenizer: Path) -> None:
    end = read_meta(tokenizer)["end_token"]
    assert codec.token_to_id("<|end|>") == end
    assert end not in codec.encode("stop<|end|>here", add_special_tokens=False).ids


def test_training_is_deterministic_and_reports_what_it_made(documents: Path, tokenizer: Path, tmp_path: Path) -> None:
    results = train_tokenizer(documents, tmp_path, 400)
    assert (tmp_path / "tokenizer.json").read_bytes() == (tokenizer / "tokenizer.json").read_bytes()
    meta = read_meta(tmp_path)
    assert results["vocabulary_size"] == meta["vocabulary_size"] <= 400
    assert results["characters"] == sum(len("".join(training_parts(*document))) for document in DOCUMENTS)


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
        ({"hub": "no-such-owner/no-such-model"}, "no-such-owner/no-such-model cannot be had from the hub"),
    ],
)
def test_entries_that_cannot_be_taken_are_refused(tmp_path: Path, monkeypatch, entry: dict, said: str) -> None:
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
