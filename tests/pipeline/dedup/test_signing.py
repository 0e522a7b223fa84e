"""Documents signed source by source: the outcome is that of signing them together; what is alone is not signed."""

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pipeline.dedup.signing as signing_stage
from pipeline.dedup.settings import DedupSettings
from pipeline.dedup.signing import sign_source
from pipeline.dedup.stage import deduplicate
from pipeline.errors import InputError
from tests.full_disk import no_space
from tests.pipeline.documents import read, table, write

WORDS = [f"{a}{b}{c}" for a in "klmn" for b in "aeiou" for c in "prst"]


def source(folder: Path, name: str, questions: list[str]) -> Path:
    rows = [table([(question, "It is so.")], name, i) for i, question in enumerate(questions)]
    return write(folder / name, *rows, shard_bytes=2_000)


def problem(draw: random.Random, number: int) -> str:
    return " ".join(draw.choices(WORDS, k=40)) + f" {number}?"


def edited(draw: random.Random, text: str) -> str:
    words = text.split()
    words[draw.randrange(30)] = "other"
    return " ".join(words)


@pytest.mark.parametrize("settings", [DedupSettings(), DedupSettings(guards=(), responses_per_question=1)])
def test_signing_source_by_source_changes_nothing(tmp_path: Path, settings: DedupSettings) -> None:
    draw = random.Random(0)
    problems = [problem(draw, i) for i in range(60)]
    # Copies within the first source, copies in the other source only, and texts shorter than an n-gram.
    first = source(
        tmp_path, "first", [*problems, *(edited(draw, text) for text in problems[:20]), "a b?", "a  B?", "a c?"]
    )
    second = source(tmp_path, "second", [edited(draw, text) for text in problems[10:40]] + problems[50:] + ["a b?"])
    signed = []
    for folder in (first, second):
        signed.append(tmp_path / "signed" / folder.name)
        sign_source(folder, signed[-1], settings.signing)
    alone, before = tmp_path / "alone", tmp_path / "before"
    results = deduplicate([first, second], alone, settings)
    assert deduplicate([first, second], before, settings, signed=signed) == results
    for kind in ("documents", "dropped"):
        assert read(before, kind) == read(alone, kind)
    assert results["verified"] >= 40
    audits = [pq.read_table(output / "near_duplicates.parquet") for output in (alone, before)]
    assert audits[0].equals(audits[1])


def test_only_documents_whose_digits_stand_in_another_text_are_signed(tmp_path: Path) -> None:
    draw = random.Random(1)
    one, two, three = (problem(draw, n) for n in (7, 7, 8))
    folder = source(tmp_path, "s", [one, two, three, three.upper()])
    found = sign_source(folder, tmp_path / "signed", DedupSettings().signing)
    assert found == {"documents": 4, "signed": 2}
    places = [pq.read_table(path)["place"].to_pylist() for path in sorted((tmp_path / "signed" / "bands").glob("*"))]
    assert sum(map(len, places)) == 2
    assert sign_source(folder, tmp_path / "exact", DedupSettings(near=False).signing) == {"documents": 4, "signed": 0}


def test_a_full_disk_is_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    draw = random.Random(0)
    documents, signing = source(tmp_path, "first", [problem(draw, i % 5) for i in range(60)]), DedupSettings().signing
    expected = sign_source(documents, tmp_path / "whole", signing)
    said = r"signed: the disk is full .*finished shards are kept"
    with no_space(1000), pytest.raises(InputError, match=said) as stopped:
        sign_source(documents, tmp_path / "signed", signing)
    assert "\n" not in str(stopped.value)
    assert sign_source(documents, tmp_path / "signed", signing) == expected


def test_too_little_memory_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_stage, "LEAST_MEMORY", 1000)
    documents = source(tmp_path, "first", [problem(random.Random(0), i % 5) for i in range(60)])
    with pytest.raises(InputError, match=r"signed: too little memory .*raise data.memory"):
        sign_source(documents, tmp_path / "signed", DedupSettings().signing, memory=1000)
