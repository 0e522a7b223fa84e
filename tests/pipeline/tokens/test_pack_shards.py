"""Texts survive the tokenizer, and documents the packing, whatever they hold and however the work
is divided."""

from __future__ import annotations

import json
import resource
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.tokens.pack_shards import pack
from dreamer_study.pipeline.tokens.random_numbers import LEFT_OUT
from dreamer_study.pipeline.tokens.tokenizer import (
    read_meta,
    read_tokenizer,
    take_tokenizer,
    training_parts,
)
from tests.pipeline.tokens.token_documents import DOCUMENTS, files, foreign, unpacked, write

OPTIONS = {"sequence_length": 64, "seed": 5, "shard_bytes": 2000, "validation": 5}


def test_a_taken_tokenizer_packs_whole_texts_without_marks_of_its_own(
    documents: Path, tmp_path: Path
) -> None:
    take_tokenizer(
        {"file": str(foreign(tmp_path / "foreign", ["</s>"]) / "tokenizer.json")},
        tmp_path / "taken",
    )
    pack(documents, tmp_path / "taken", tmp_path / "packed", sequence_length=256, seed=0)
    codec = read_tokenizer(tmp_path / "taken")
    texts = Counter(
        codec.decode([*prompt, *response], skip_special_tokens=False)
        for prompt, response in unpacked(tmp_path / "packed")
    )
    assert texts == Counter("".join(training_parts(*document)) + "</s>" for document in DOCUMENTS)


def test_what_was_packed_is_counted(
    documents: Path, tokenizer: Path, codec, tmp_path: Path
) -> None:
    told: list[float] = []
    results = pack(
        documents,
        tokenizer,
        tmp_path,
        sequence_length=128,
        seed=0,
        progress=lambda *at: told.append(at[0]),
    )
    assert told == sorted(told)
    assert told[-1] == 1
    packed = json.loads((tmp_path / "packed.json").read_text())
    assert packed["dtype"] == "uint16"
    assert results["tokens"] == packed["tokens"]
    assert results["documents"] == packed["documents"] == len(DOCUMENTS)
    assert 0 <= results["padding"] < 0.15
    by_source = {row["source"]: row for row in results["counts"]}
    assert by_source["text"] == {
        "source": "text", "reason": "kept", "documents": 1, "characters": len(DOCUMENTS[-2][1]),
        "tokens": len(codec.encode(DOCUMENTS[-2][1]).ids) + 1,
    }  # fmt: skip
    assert sum(row["tokens"] for row in results["counts"]) == results["tokens"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "packed.json",
        "tokens-00000.bin",
        "index-00000.npy",
    }


@pytest.mark.slow
@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.none() | st.text(max_size=40), st.none() | st.text(max_size=80)),
        min_size=1,
        max_size=30,
    ),
    st.integers(2, 60),
)
def test_any_documents_and_row_length(
    tmp_path_factory, tokenizer: Path, codec, documents, row: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    pack(write(folder / "in", documents), tokenizer, folder / "out", sequence_length=row, seed=1)
    expected: Counter = Counter()
    for document in documents:
        prompt, response = (
            codec.encode(part, add_special_tokens=False).ids for part in training_parts(*document)
        )
        tokens = [*prompt, *response, read_meta(tokenizer)["end_token"]]
        for start in range(0, len(tokens), row):
            border = min(max(len(prompt) - start, 0), row)
            piece = tokens[start : start + row]
            expected[tuple(piece[:border]), tuple(piece[border:])] += 1
    assert Counter(unpacked(folder / "out")) == expected


@pytest.mark.slow
def test_bytes_depend_on_documents_and_seed_not_on_how_they_lie(
    tokenizer: Path, tmp_path: Path
) -> None:
    plain = write(tmp_path / "plain", DOCUMENTS)
    pieces = write(tmp_path / "pieces", DOCUMENTS, rows=7, shard_bytes=1000)
    assert len(list((pieces / "documents").iterdir())) > 3
    one = pack(plain, tokenizer, tmp_path / "one", **OPTIONS)
    assert pack(pieces, tokenizer, tmp_path / "two", **OPTIONS) == one
    assert len(json.loads((tmp_path / "one/packed.json").read_text())["shards"]) > 2
    assert files(tmp_path / "one") == files(tmp_path / "two")
    pack(plain, tokenizer, tmp_path / "other", **OPTIONS | {"seed": 6})
    assert unpacked(tmp_path / "other") != unpacked(tmp_path / "one")
    assert Counter(unpacked(tmp_path / "other")) == Counter(unpacked(tmp_path / "one"))


@pytest.mark.slow
def test_any_number_of_processes_writes_the_same_bytes(tokenizer: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in", DOCUMENTS, rows=7, shard_bytes=1000)
    alone = pack(source, tokenizer, tmp_path / "alone", **OPTIONS)
    assert pack(source, tokenizer, tmp_path / "together", processes=3, **OPTIONS) == alone
    assert files(tmp_path / "alone") == files(tmp_path / "together")


def test_the_shuffle_is_even(tokenizer: Path, codec, tmp_path: Path) -> None:
    count = 2000
    source = write(tmp_path / "in", [("", str(number)) for number in range(count)], rows=100)
    pack(source, tokenizer, tmp_path / "out", sequence_length=64, seed=0, shard_bytes=1500)
    order = [int(codec.decode(list(response))) for _, response in unpacked(tmp_path / "out")]
    assert sorted(order) == list(range(count))
    assert abs(np.corrcoef(order, np.arange(count))[0, 1]) < 0.08
    neighbours = np.abs(np.diff(order))
    assert neighbours.mean() == pytest.approx(count / 3, rel=0.08)


def stop_at_a_shard(fraction: float, words: str) -> None:
    if words == "packing":
        raise KeyboardInterrupt


@pytest.mark.slow
def test_an_interrupted_packing_goes_on_where_it_was(tokenizer: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in", DOCUMENTS, rows=7, shard_bytes=1000)
    pack(source, tokenizer, tmp_path / "whole", **OPTIONS)

    with pytest.raises(KeyboardInterrupt):
        pack(source, tokenizer, tmp_path / "out", progress=stop_at_a_shard, **OPTIONS)
    assert not (tmp_path / "out/packed.json").exists()
    finished = (tmp_path / "out/tokens-00000.bin").stat().st_ino
    pack(source, tokenizer, tmp_path / "out", **OPTIONS)
    assert (tmp_path / "out/tokens-00000.bin").stat().st_ino == finished, (
        "the finished shard is not made again"
    )
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_leftovers_of_another_job_are_not_used(
    documents: Path, tokenizer: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        pack(
            documents,
            tokenizer,
            tmp_path / "out",
            sequence_length=64,
            seed=1,
            progress=stop_at_a_shard,
        )
    pack(documents, tokenizer, tmp_path / "out", sequence_length=64, seed=2)
    pack(documents, tokenizer, tmp_path / "fresh", sequence_length=64, seed=2)
    assert files(tmp_path / "out") == files(tmp_path / "fresh")


def test_what_cannot_be_packed_is_refused(documents: Path, tokenizer: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 2 tokens"):
        pack(documents, tokenizer, tmp_path, sequence_length=1, seed=0)
    with pytest.raises(InputError, match="holds no documents"):
        pack(write(tmp_path / "empty", []), tokenizer, tmp_path, sequence_length=64, seed=0)
    with pytest.raises(InputError, match=r"tokenizer_meta\.json cannot be read"):
        pack(documents, tmp_path, tmp_path, sequence_length=64, seed=0)
    (shard,) = (write(tmp_path / "in", DOCUMENTS) / "documents").iterdir()
    shard.write_bytes(shard.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"00000\.parquet: cut off or damaged .*--repair"):
        pack(tmp_path / "in", tokenizer, tmp_path / "out", sequence_length=64, seed=0)


def test_weights_repeat_documents_and_leave_some_out(
    tokenizer: Path, codec, tmp_path: Path
) -> None:
    documents = [(f"What is {i}?", f"half {i}") for i in range(400)]
    source = write(
        tmp_path / "in", [*documents, *(("", f"twice {i}") for i in range(400))], rows=90
    )
    options = {"sequence_length": 64, "seed": 3}
    result = pack(
        source, tokenizer, tmp_path / "out", weights={"world": 0.5, "text": 2.25}, **options
    )
    found = Counter(codec.decode(list(response)) for _, response in unpacked(tmp_path / "out"))
    times = Counter((text.split()[0], number) for text, number in found.items())
    assert set(times) == {("half", 1), ("twice", 2), ("twice", 3)}
    assert times["half", 1] == pytest.approx(200, abs=30)
    assert times["twice", 3] == pytest.approx(100, abs=26)
    assert result["documents"] == found.total()
    assert {(row["source"], row["reason"]): row["documents"] for row in result["counts"]} == {
        ("text", "kept"): 400,
        ("world", "kept"): times["half", 1],
        ("world", LEFT_OUT): 400 - times["half", 1],
    }
    pack(source, tokenizer, tmp_path / "plain", **options)
    pack(source, tokenizer, tmp_path / "one", weights={"world": 1.0}, **options)
    assert files(tmp_path / "plain") == files(tmp_path / "one")


@pytest.mark.slow
def test_a_thousand_shards_need_few_open_files(tokenizer: Path, tmp_path: Path) -> None:
    documents = [(f"What is {number} + 1?", str(number + 1)) for number in range(1000)]
    source = write(tmp_path / "in", documents, rows=1, shard_bytes=1)
    assert len(list((source / "documents").iterdir())) == len(documents)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        pack(source, tokenizer, tmp_path / "packed", sequence_length=64, seed=0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(unpacked(tmp_path / "packed")) == len(documents)
