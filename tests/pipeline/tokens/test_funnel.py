"""What training does not read: held-out documents, and the counts of all."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dreamer_study.pipeline.clean import clean
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.documents import KEPT, SCHEMA, DocumentWriter, read_documents
from dreamer_study.pipeline.tokens.funnel import Stage, count_tokens
from dreamer_study.pipeline.tokens.pack_shards import pack
from dreamer_study.pipeline.tokens.tokenizer import read_tokenizer, train_tokenizer, training_parts
from dreamer_study.pipeline.tokens.validation import (
    TUNING,
    hash_bounds,
    items_file,
    question_hashes,
)
from dreamer_study.pipeline.traces.strip_source import strip_traces
from tests.pipeline.documents import read
from tests.pipeline.tokens.token_documents import unpacked, write

SOURCES = frozenset({"a", "b"})


def documents(count: int) -> pa.Table:
    texts = [f"<think>{'so ' * (i % 7)}</think>It is {i * 7919 % 1000}." for i in range(count)]
    texts = ["<think>never closed " * 3 if i % 10 == 0 else text for i, text in enumerate(texts)]
    rows = [
        {
            "id": f"s/{i}",
            "source": "a" if i % 3 else "b",
            "row": i,
            "question": f"What is {i}?" if i % 4 else "",
            "response": f"{text}\u200b" if i % 5 == 0 else text,
        }
        for i, text in enumerate(texts)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def counted(stages: list[Stage], tmp_path: Path) -> list[dict]:
    """Count with a tokenizer that is trained on the documents of the last stage."""
    folder, tokenizer = stages[-1].folder, tmp_path / "tokenizer"
    train_tokenizer(folder, tokenizer, 300)
    packed = pack(folder, tokenizer, tmp_path / "packed", sequence_length=64, seed=0)
    return count_tokens(stages, packed["counts"], tokenizer)


@pytest.mark.slow
def test_tokens_are_those_of_every_document_or_of_a_sample(tmp_path: Path, monkeypatch) -> None:
    with DocumentWriter(tmp_path / "documents") as writer:
        writer.keep(documents(3000))
        writer.drop(documents(50), "empty response")
    stages = [Stage("documents", tmp_path / "documents", writer.counts(), SOURCES)]
    for name, work in (("traces", strip_traces), ("clean", clean)):
        counts = work(stages[-1].folder, tmp_path / name)["counts"]
        stages.append(Stage(name, tmp_path / name, counts, SOURCES))
    with DocumentWriter(tmp_path / "unique") as writer:
        for number, batch in enumerate(read_documents(tmp_path / "clean", batch_rows=100)):
            writer.drop(batch, "near_duplicate") if number == 3 else writer.keep(batch)
    stages.append(Stage("deduplicate", tmp_path / "unique", writer.counts(), frozenset()))
    exact = counted(stages, tmp_path)
    for stage in stages:
        found = {
            (row["source"], row["reason"]): row["tokens"]
            for row in exact
            if row["stage"] == stage.name
        }
        assert found == by_hand(stage.folder, tmp_path / "tokenizer"), stage.name
    assert all(row["exact"] for row in exact)
    monkeypatch.setattr("dreamer_study.pipeline.tokens.funnel.EXACT_CHARACTERS", 20_000)
    near = counted(stages, tmp_path / "again")
    assert {row["exact"] for row in near} == {True, False}
    for one, other in zip(exact, near, strict=True):
        assert other["tokens"] == pytest.approx(one["tokens"], rel=0.03)
        assert other["tokens"] == one["tokens"] or not other["exact"]
    assert near == counted(stages, tmp_path / "once more")


def by_hand(folder: Path, tokenizer: Path) -> dict[tuple[str, str], int]:
    codec, found = read_tokenizer(tokenizer), {}
    for kind in ("documents", "dropped"):
        for row in read(folder, kind):
            parts = training_parts(row["question"], row["response"])
            key = row["source"], row.get("reason", KEPT)
            tokens = (
                sum(len(codec.encode(part, add_special_tokens=False).ids) for part in parts) + 1
            )
            found[key] = found.get(key, 0) + tokens
    return found


def test_of_a_few_long_documents_none_is_left_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("dreamer_study.pipeline.tokens.funnel.EXACT_CHARACTERS", 1000)
    long = documents(3).set_column(
        4, "response", pa.array([f"coins and {i} " * 3000 for i in range(3)])
    )
    with DocumentWriter(tmp_path / "clean") as writer:
        writer.keep(documents(300))
        writer.drop(long, "response too long")
    stages = [Stage("clean", tmp_path / "clean", writer.counts(), frozenset())]
    rows = counted(stages, tmp_path)
    found = {(row["source"], row["reason"]): row["tokens"] for row in rows if row["reason"] != KEPT}
    expected = by_hand(tmp_path / "clean", tmp_path / "tokenizer")
    assert found == {group: tokens for group, tokens in expected.items() if group[1] != KEPT}


def test_tokens_of_a_source_that_a_stage_left_as_it_was_are_known(
    tmp_path: Path, monkeypatch
) -> None:
    """Source a is mended, source b is not: the tokens of b are exact, and no text of b is encoded
    again."""
    monkeypatch.setattr("dreamer_study.pipeline.tokens.funnel.EXACT_CHARACTERS", 100)
    with DocumentWriter(tmp_path / "documents") as writer:
        writer.keep(documents(600))
    stages = [Stage("documents", tmp_path / "documents", writer.counts(), frozenset())]
    cleaned = clean(stages[0].folder, tmp_path / "clean")["counts"]
    stages.append(Stage("clean", tmp_path / "clean", cleaned, frozenset("a")))
    rows = counted(stages, tmp_path)
    exact = {(row["stage"], row["source"]): row["exact"] for row in rows}
    assert exact == {
        ("documents", "a"): False,
        ("documents", "b"): True,
        ("clean", "a"): True,
        ("clean", "b"): True,
    }
    tokens = {(row["stage"], row["source"]): row["tokens"] for row in rows}
    assert tokens["documents", "b"] == tokens["clean", "b"]


QUESTIONS = [
    f"{name} has {number} coins. How many?" for name in ("Ann", "Ben") for number in range(200)
]
SEVERAL = [
    (form, f"{answer} {number}.")
    for number, question in enumerate(QUESTIONS)
    for form, answer in (
        (question, "It is"),
        (question.upper(), "So"),
        (f"  {question} ", "That makes"),
    )
] + [("", f"A text of {number} words.") for number in range(300)]
OPTIONS = {"sequence_length": 128, "shard_bytes": 20_000}


def words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.lower()))


def items(packed: Path, loss_on: str = "responses", *split: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in items_file(packed, loss_on, *split).read_text().splitlines()
    ]


def text_of(item: dict[str, Any]) -> str:
    """The text of an item that asks nothing, else its question."""
    asks = item["prompt"].startswith("Question: ") or not item["prompt"]
    return item["prompt"] or item["target"] if asks else f"{item['prompt']} {item['target']}"


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
    trained = {
        words(codec.decode(list(prompt or response))) for prompt, response in unpacked(packed)
    }
    held_out = {words(text_of(item)) for item in items(packed)}
    assert {item["prompt"].startswith("Question: ") for item in items(packed)} == {True, False}
    assert len(trained) > 600
    assert not trained & held_out
    asked = Counter(
        words(item["prompt"]) for item in items(packed) if item["prompt"].startswith("Question: ")
    )
    assert set(asked.values()) == {3}, "all solutions of a question"


def test_every_document_is_packed_or_held_out_and_counted(
    results: dict[str, Any], packed: Path, codec
) -> None:
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


def test_a_tuning_split_is_apart_from_validation_and_from_training(
    source, tokenizer, packed, results, tmp_path, codec
):
    with_tuning = pack(source, tokenizer, tmp_path, seed=0, validation=1000, tuning=1000, **OPTIONS)
    assert items(tmp_path) == items(packed)
    tuned = items(tmp_path, "responses", TUNING)
    asked = {words(text_of(item)) for item in tuned}
    trained = {
        words(codec.decode(list(prompt or response))) for prompt, response in unpacked(tmp_path)
    }
    assert not asked & trained
    assert not asked & {words(text_of(item)) for item in items(packed)}
    assert 10 < with_tuning["tuning"] == len(tuned) < 60  # about 2 % again
    held_out = sum(row["documents"] for row in with_tuning["counts"] if row["reason"] == TUNING)
    assert results["documents"] - with_tuning["documents"] == held_out == len(tuned)


def test_items_are_what_is_learned(results: dict[str, Any], packed: Path) -> None:
    held_out = read(packed, "dropped")
    parts = {row["id"]: training_parts(row["question"], row["response"]) for row in held_out}
    for item in items(packed, "all"):
        assert f"{item['prompt']} {item['target']}" == "".join(parts[item["id"]])
    for item in items(packed, "responses"):
        prompt, response = parts[item["id"]]
        assert f"{item['prompt']} {item['target']}" == prompt + response
        assert item["prompt"] == (prompt or response.split(" ")[0])


def test_nothing_is_scored_that_training_has_no_loss_on(
    results: dict[str, Any], packed: Path
) -> None:
    """A document's first token has no loss in training, and the end mark is read by no other
    token."""
    for loss_on in ("all", "responses", "answers"):
        assert all(item["prompt"] for item in items(packed, loss_on)), loss_on


def test_fewer_items_are_those_of_the_lowest_hashes(
    results, source, tokenizer, packed: Path, tmp_path: Path
) -> None:
    found = pack(source, tokenizer, tmp_path, seed=0, validation=5, **OPTIONS)
    assert items(tmp_path) == items(packed)[: found["validation"]]
    assert found["validation"] <= 5
    held_out = sum(row["documents"] for row in found["counts"] if row["reason"] == "validation")
    assert found["validation"] <= held_out


@pytest.mark.slow
def test_the_choice_depends_on_questions_alone(
    results, tokenizer: Path, packed: Path, tmp_path: Path
) -> None:
    backwards = write(tmp_path / "in", SEVERAL[::-1], rows=7, shard_bytes=5000)
    pack(backwards, tokenizer, tmp_path / "out", seed=3, validation=1000, **OPTIONS)

    def texts(folder: Path) -> Counter[str]:
        return Counter(item["target"] for item in items(folder, "all"))

    assert texts(tmp_path / "out") == texts(packed)


def test_few_documents_are_all_packed(tokenizer: Path, tmp_path: Path) -> None:
    found = pack(
        write(tmp_path / "in", SEVERAL[:49]),
        tokenizer,
        tmp_path / "out",
        seed=0,
        validation=1000,
        **OPTIONS,
    )
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


@pytest.mark.slow
def test_the_documents_that_another_packing_holds_out_are_held_out_here(tmp_path: Path) -> None:
    """However often they stand in the raw documents, and whatever their responses."""
    few = documents(3000)
    asked = few.filter([bool(question) for question in few["question"].to_pylist()])
    with DocumentWriter(tmp_path / "clean") as writer:
        writer.keep(asked)
    copies = asked.set_column(asked.schema.get_field_index("response"), "response", asked["id"])
    with DocumentWriter(tmp_path / "raw") as writer:
        writer.keep(pa.concat_tables([copies, asked, asked]))
    train_tokenizer(tmp_path / "clean", tmp_path / "tokenizer", 300)
    settings = {"sequence_length": 64, "seed": 0}
    folders = {name: tmp_path / f"packed-{name}" for name in ("clean", "raw", "tuned")}
    first = pack(
        tmp_path / "clean", tmp_path / "tokenizer", folders["clean"], validation=20, **settings
    )
    packed = pack(
        tmp_path / "raw",
        tmp_path / "tokenizer",
        folders["raw"],
        held_out_like=folders["clean"],
        **settings,
    )
    assert packed["validation"] == first["validation"] > 0
    for loss_on in ("all", "responses", "answers"):
        items = [items_file(folders[name], loss_on).read_bytes() for name in ("clean", "raw")]
        assert items[0] == items[1]
    held_out = {row["question"] for row in read(folders["clean"], "dropped")}
    assert {row["question"] for row in read(folders["raw"], "dropped")} == held_out
    assert len(read(folders["raw"], "dropped")) == 3 * len(read(folders["clean"], "dropped"))

    tuned = pack(
        tmp_path / "raw",
        tmp_path / "tokenizer",
        folders["tuned"],
        held_out_like=folders["clean"],
        tuning=30,
        **settings,
    )
    reasons = Counter(row["reason"] for row in read(folders["tuned"], "dropped"))
    assert reasons["validation"] == 3 * len(read(folders["clean"], "dropped"))
    assert tuned["tuning"] > 0
