"""The bytes of an average token, by which nats per token become bits per byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from dreamer_study.pipeline.tokens.validation import bytes_per_token


def items(path: Path, *texts: tuple[str, str]) -> Path:
    lines = [
        json.dumps({"id": str(number), "prompt": prompt, "target": target})
        for number, (prompt, target) in enumerate(texts)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_only_targets_count(tmp_path: Path, tokenizer: Path, codec: Tokenizer) -> None:
    target = "Émile is twice as old as Ann."
    tokens = len(codec.encode(f" {target}", add_special_tokens=False).ids)
    asked = items(tmp_path / "items.jsonl", ("Question: How old?\nAnswer:", target))
    assert bytes_per_token(asked, tokenizer) == pytest.approx((len(target) + 1) / tokens)


def test_a_whole_text_counts_as_a_whole(tmp_path: Path, tokenizer: Path, codec: Tokenizer) -> None:
    texts = ("One text.", "Another, longer text follows.")
    tokens = sum(len(codec.encode(text, add_special_tokens=False).ids) for text in texts)
    whole = items(tmp_path / "items.jsonl", *(("", text) for text in texts))
    assert bytes_per_token(whole, tokenizer) == pytest.approx(len("".join(texts)) / tokens)
