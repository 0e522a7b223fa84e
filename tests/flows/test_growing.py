"""Sources grow: a new source is signed alone."""

import json
import random
from pathlib import Path

import pytest

import flows.prepare
from flows.plan import Plan
from flows.prepare import prepare_data
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.storage.documents import read_documents
from tests.flows.by_hand import at_once

BENCHMARK = {"name": "b", "repository": "owner/items", "task": "b", "metric": "acc", "question": "q", "split": "train"}
WORDS = [f"{a}{b}{c}" for a in "klmn" for b in "aeiou" for c in "prst"]


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=30)) + f" {n % 50}?" for n in range(200)]
    copies = [text.replace(" ", " other ", 1) for text in texts[::2]]
    for name, questions in (("first", texts), ("second", copies), ("items", ["What is 3 and 4 and 5?"] * 20)):
        folder = tmp_path / "mirror" / "owner" / name / "default"
        folder.mkdir(parents=True)
        lines = [json.dumps({"q": question, "r": "It is so."}) for question in questions]
        (folder / "train.jsonl").write_text("\n".join(lines))
    return tmp_path / "mirror"


def study(mirror: Path, root: Path, *names: str) -> Study:
    sources = [{"name": name, "repository": f"owner/{name}", "question": "q", "response": "r"} for name in names]
    data = {"sources": sources, "mirror": str(mirror), "tokenizer": {"vocabulary_size": 300}, "validation": 0}
    training = {"tokens": 10_000, "sequence_length": 64}
    evaluation = {"benchmarks": [BENCHMARK]}
    return load_study(
        {"name": "grown", "root": str(root), "data": data, "training": training, "evaluation": evaluation}
    )


def kept(chosen: Study) -> list[str]:
    plan = Plan(chosen)
    prepare_data(plan, at_once)
    return [i for batch in read_documents(plan.data.unique.path) for i in batch["id"].to_pylist()]


def test_a_new_source_is_signed_alone(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signed = []
    sign = flows.prepare.sign_source
    monkeypatch.setattr(
        flows.prepare,
        "sign_source",
        lambda source, *rest, **named: (signed.append(1), sign(source, *rest, **named))[1],
    )
    assert len(kept(study(mirror, tmp_path / "grown", "first"))) == 200
    assert len(signed) == 1
    grown = kept(study(mirror, tmp_path / "grown", "first", "second"))
    assert len(signed) == 2
    assert grown == kept(study(mirror, tmp_path / "fresh", "first", "second"))
    assert len(grown) < 210


def test_the_key_of_deduplication_does_not_depend_on_signatures(mirror: Path, tmp_path: Path) -> None:
    """A study that deduplicated before its sources were signed by themselves keeps all that it has trained."""
    data = Plan(study(mirror, tmp_path / "run", "first", "second")).data
    assert [name.partition("/")[0] for name in data.unique.inputs] == ["clean", "clean"]
    assert [output.stage for output in data.outputs].count("signatures") == 2
