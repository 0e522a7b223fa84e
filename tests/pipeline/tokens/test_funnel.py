"""The funnel in tokens: exact for small groups, near for sampled ones, and adding up from stage to stage."""

from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.clean import clean
from pipeline.storage.documents import KEPT, SCHEMA, DocumentWriter, read_documents
from pipeline.tokens.funnel import Stage, count_tokens
from pipeline.tokens.stage import pack
from pipeline.tokens.tokenizer import read_tokenizer, train_tokenizer, training_parts
from pipeline.traces.stage import strip_traces

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
        found = {(row["source"], row["reason"]): row["tokens"] for row in exact if row["stage"] == stage.name}
        assert found == by_hand(stage.folder, tmp_path / "tokenizer"), stage.name
    assert all(row["exact"] for row in exact)
    monkeypatch.setattr("pipeline.tokens.funnel.EXACT_CHARACTERS", 20_000)
    near = counted(stages, tmp_path / "again")
    assert {row["exact"] for row in near} == {True, False}
    for one, other in zip(exact, near, strict=True):
        assert other["tokens"] == pytest.approx(one["tokens"], rel=0.03)
        assert other["tokens"] == one["tokens"] or not other["exact"]
    assert near == counted(stages, tmp_path / "once more")


def by_hand(folder: Path, tokenizer: Path) -> dict[tuple[str, str], int]:
    codec, found = read_tokenizer(tokenizer), {}
    for kind in ("documents", "dropped"):
        for batch in read_documents(folder, kind=kind):
            for row in batch.to_pylist():
                parts = training_parts(row["question"], row["response"])
                key = row["source"], row.get("reason", KEPT)
                tokens = sum(len(codec.encode(part, add_special_tokens=False).ids) for part in parts) + 1
                found[key] = found.get(key, 0) + tokens
    return found


def test_of_a_few_long_documents_none_is_left_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("pipeline.tokens.funnel.EXACT_CHARACTERS", 1000)
    long = documents(3).set_column(4, "response", pa.array([f"coins and {i} " * 3000 for i in range(3)]))
    with DocumentWriter(tmp_path / "clean") as writer:
        writer.keep(documents(300))
        writer.drop(long, "response too long")
    stages = [Stage("clean", tmp_path / "clean", writer.counts(), frozenset())]
    rows = counted(stages, tmp_path)
    found = {(row["source"], row["reason"]): row["tokens"] for row in rows if row["reason"] != KEPT}
    expected = by_hand(tmp_path / "clean", tmp_path / "tokenizer")
    assert found == {group: tokens for group, tokens in expected.items() if group[1] != KEPT}


def test_tokens_of_a_source_that_a_stage_left_as_it_was_are_known(tmp_path: Path, monkeypatch) -> None:
    """Source a is mended, source b is not: the tokens of b are exact, and no text of b is encoded again."""
    monkeypatch.setattr("pipeline.tokens.funnel.EXACT_CHARACTERS", 100)
    with DocumentWriter(tmp_path / "documents") as writer:
        writer.keep(documents(600))
    stages = [Stage("documents", tmp_path / "documents", writer.counts(), frozenset())]
    cleaned = clean(stages[0].folder, tmp_path / "clean")["counts"]
    stages.append(Stage("clean", tmp_path / "clean", cleaned, frozenset("a")))
    rows = counted(stages, tmp_path)
    exact = {(row["stage"], row["source"]): row["exact"] for row in rows}
    assert exact == {("documents", "a"): False, ("documents", "b"): True, ("clean", "a"): True, ("clean", "b"): True}
    tokens = {(row["stage"], row["source"]): row["tokens"] for row in rows}
    assert tokens["documents", "b"] == tokens["clean", "b"]
