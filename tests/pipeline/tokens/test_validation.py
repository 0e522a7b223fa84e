"""Documents held out of training: whole questions, the same ones however the work is divided, each counted once."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.storage.documents import KEPT
from pipeline.tokens.stage import pack
from pipeline.tokens.tokenizer import training_parts
from pipeline.tokens.validation import TUNING, hash_bounds, items_file, question_hashes
from tests.pipeline.documents import read
from tests.pipeline.tokens.token_documents import unpacked, write

QUESTIONS = [f"{name} has {number} coins. How many?" for name in ("Ann", "Ben") for number in range(200)]
SEVERAL = [
    (form, f"{answer} {number}.")
    for number, question in enumerate(QUESTIONS)
    for form, answer in ((question, "It is"), (question.upper(), "So"), (f"  {question} ", "That makes"))
] + [("", f"A text of {number} words.") for number in range(300)]
OPTIONS = {"sequence_length": 128, "shard_bytes": 20_000}


def words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.lower()))


def items(packed: Path, loss_on: str = "responses", *split: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in items_file(packed, loss_on, *split).read_text().splitlines()]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("several"), SEVERAL)


@pytest.fixture(scope="module")
def results(source: Path, tokenizer: Path, packed: Path) -> dict[str, Any]:
    return pack(source, tokenizer, packed, seed=0, validation=1000, **OPTIONS)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packed")


def test_no_question_is_on_both_sides(results: dict[str, Any], packed: Path, codec) -> None:
    trained = {words(codec.decode(list(prompt or response))) for prompt, response in unpacked(packed)}
    held_out = {words(item["prompt"] or item["target"]) for item in items(packed)}
    assert {bool(item["prompt"]) for item in items(packed)} == {True, False}
    assert len(trained) > 600
    assert not trained & held_out
    asked = Counter(words(item["prompt"]) for item in items(packed) if item["prompt"])
    assert set(asked.values()) == {3}, "all solutions of a question"


def test_every_document_is_packed_or_held_out_and_counted(results: dict[str, Any], packed: Path, codec) -> None:
    held_out = read(packed, "dropped")
    assert {row["reason"] for row in held_out} == {"validation"}
    texts = Counter("".join(training_parts(row["question"], row["response"])) for row in held_out)
    texts.update(codec.decode([*prompt, *response]) for prompt, response in unpacked(packed))
    assert texts == Counter("".join(training_parts(*document)) for document in SEVERAL)
    documents: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for row in results["counts"]:
        documents[row["reason"]] += row["documents"]
        tokens[row["reason"]] += row["tokens"]
    assert documents == {KEPT: results["documents"], "validation": len(held_out)}
    assert documents.total() == len(SEVERAL)
    assert 10 < len(held_out) < 60  # about 2 %
    assert results["tokens"] == tokens[KEPT]
    assert results["validation"] == len(items(packed)) == len(held_out)


def test_a_tuning_split_is_apart_from_validation_and_from_training(source, tokenizer, packed, results, tmp_path, codec):
    with_tuning = pack(source, tokenizer, tmp_path, seed=0, validation=1000, tuning=1000, **OPTIONS)
    assert items(tmp_path) == items(packed)
    tuned = items(tmp_path, "responses", TUNING)
    asked = {words(item["prompt"] or item["target"]) for item in tuned}
    trained = {words(codec.decode(list(prompt or response))) for prompt, response in unpacked(tmp_path)}
    assert not asked & trained
    assert not asked & {words(item["prompt"] or item["target"]) for item in items(packed)}
    assert 10 < with_tuning["tuning"] == len(tuned) < 60  # about 2 % again
    held_out = sum(row["documents"] for row in with_tuning["counts"] if row["reason"] == TUNING)
    assert results["documents"] - with_tuning["documents"] == held_out == len(tuned)


def test_items_are_what_is_learned(results: dict[str, Any], packed: Path) -> None:
    held_out = read(packed, "dropped")
    parts = {row["id"]: training_parts(row["question"], row["response"]) for row in held_out}
    for item in items(packed, "all"):
        assert (item["prompt"], item["target"]) == ("", "".join(parts[item["id"]]))
    for item in items(packed, "responses"):
        prompt, response = parts[item["id"]]
        assert (item["prompt"], f" {item['target']}" if prompt else item["target"]) == (prompt, response)


def test_fewer_items_are_those_of_the_lowest_hashes(results, source, tokenizer, packed: Path, tmp_path: Path) -> None:
    found = pack(source, tokenizer, tmp_path, seed=0, validation=5, **OPTIONS)
    assert items(tmp_path) == items(packed)[: found["validation"]]
    assert found["validation"] <= 5
    held_out = sum(row["documents"] for row in found["counts"] if row["reason"] == "validation")
    assert found["validation"] <= held_out


def test_the_choice_depends_on_questions_alone(results, tokenizer: Path, packed: Path, tmp_path: Path) -> None:
    backwards = write(tmp_path / "in", SEVERAL[::-1], rows=7, shard_bytes=5000)
    pack(backwards, tokenizer, tmp_path / "out", seed=3, validation=1000, **OPTIONS)

    def texts(folder: Path) -> Counter[str]:
        return Counter(item["target"] for item in items(folder, "all"))

    assert texts(tmp_path / "out") == texts(packed)


def test_few_documents_are_all_packed(tokenizer: Path, tmp_path: Path) -> None:
    found = pack(write(tmp_path / "in", SEVERAL[:49]), tokenizer, tmp_path / "out", seed=0, validation=1000, **OPTIONS)
    assert (found["documents"], found["validation"]) == (49, 0)
    assert not (tmp_path / "out" / "dropped").exists()


def test_a_single_question_that_is_held_out_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    texts = pa.array(f"How many are {number}?" for number in range(500))
    hashes = question_hashes(pa.record_batch({"question": texts, "response": texts}))
    held_out = texts[int(hashes.argmin())].as_py()
    assert hashes.min() < hash_bounds(50, [1])[0]
    same = write(tmp_path / "in", [(held_out, f"{number}") for number in range(50)])
    with pytest.raises(InputError, match=r"held out or have a low weight; set data\.validation"):
        pack(same, tokenizer, tmp_path / "out", seed=0, validation=1, **OPTIONS)
