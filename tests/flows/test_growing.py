"""Sources grow: a new source is signed alone."""

import random
from pathlib import Path

import pytest

import flows.prepare
from pipeline.storage.documents import read_documents
from tests.flows.own_rows import entry, prepared_of, write_rows

WORDS = [f"{a}{b}{c}" for a in "klmn" for b in "aeiou" for c in "prst"]


def test_a_new_source_is_signed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, mirror = random.Random(0), tmp_path / "mirror"
    texts = [" ".join(draw.choices(WORDS, k=30)) + f" {n % 50}?" for n in range(200)]
    copies = [text.replace(" ", " other ", 1) for text in texts[::2]]
    for name, questions in (("first", texts), ("second", copies), ("items", ["What is 3 and 4 and 5?"] * 20)):
        write_rows(mirror, name, ({"q": question, "r": "It is so."} for question in questions))
    signed = []
    sign = flows.prepare.sign_source
    monkeypatch.setattr(
        flows.prepare,
        "sign_source",
        lambda source, *rest, **named: (signed.append(1), sign(source, *rest, **named))[1],
    )

    def kept(root: str, *names: str) -> list[str]:
        unique = prepared_of(mirror, tmp_path / root, *map(entry, names)).data.unique
        return [i for batch in read_documents(unique.path) for i in batch["id"].to_pylist()]

    assert len(kept("grown", "first")) == 200
    assert len(signed) == 1
    grown = kept("grown", "first", "second")
    assert len(signed) == 2
    assert grown == kept("fresh", "first", "second")
    assert len(grown) < 210
