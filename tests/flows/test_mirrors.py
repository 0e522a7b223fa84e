"""Data sets that are not here: those of a study are named together, and addresses of mirrors are refused."""

import json
from pathlib import Path

import pytest

from flows.plan import Plan
from flows.prepare import prepare_data
from flows.study.loading import load_study
from pipeline.errors import InputError
from tests.flows.by_hand import at_once

BENCHMARK = {"name": "b", "repository": "owner/items", "task": "b", "metric": "acc", "question": "q", "answer": "a"}


@pytest.fixture(autouse=True)
def _no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_an_address_is_no_mirror_and_its_credentials_are_not_repeated() -> None:
    with pytest.raises(InputError, match="a mirror is a folder: copy s3://") as error:
        load_study("demo", mirror="s3://key:secret@bucket/data")
    assert "secret" not in str(error.value)


def test_all_data_sets_that_are_not_here_are_named_with_the_study(tmp_path: Path) -> None:
    """A study of two sources and three benchmarks, one of which is in the mirror."""
    (tmp_path / "mirror/owner/items/default").mkdir(parents=True)
    (tmp_path / "mirror/owner/items/default/test.jsonl").write_text('{"q": "What is 2 + 3?", "a": "5"}\n')
    content = {
        "name": "far",
        "data": {"sources": ["gsm8k", {"name": "mine", "repository": "me/mine", "text": "t"}]},
        "training": {"tokens": 10_000, "sequence_length": 64},
        "evaluation": {"benchmarks": [BENCHMARK, "mathqa", "gsm8k"]},
    }
    path = tmp_path / "far.yaml"
    path.write_text(json.dumps(content))
    study = load_study(path, mirror=tmp_path / "mirror", root=tmp_path / "run")
    with pytest.raises(InputError) as error:
        prepare_data(Plan(study), at_once)
    said = str(error.value)
    assert said.startswith("openai/gsm8k: ")
    assert f"`dreamer download {path} --mirror <folder>`" in said
    assert said.endswith("; also not here: mine, mathqa")
