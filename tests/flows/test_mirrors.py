"""Data sets that are not here: those of a study are named together."""

from pathlib import Path

import pytest

from flows.plan import Plan
from flows.prepare import prepare_data
from flows.study.loading import load_study
from pipeline.errors import InputError
from tests.flows.by_hand import at_once, study_file
from tests.flows.own_rows import BENCHMARK, write_rows


def test_all_data_sets_that_are_not_here_are_named_with_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study of two sources and three benchmarks, one of which is in the mirror."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    write_rows(tmp_path / "mirror", "items", [{"q": "What is 2 + 3?", "a": "5"}])
    sources = ["gsm8k", {"name": "mine", "repository": "me/mine", "text": "t"}]
    path = study_file(tmp_path, data={"sources": sources}, evaluation={"benchmarks": [BENCHMARK, "mathqa", "gsm8k"]})
    study = load_study(path, mirror=tmp_path / "mirror", root=tmp_path / "run")
    with pytest.raises(InputError) as error:
        prepare_data(Plan(study), at_once)
    said = str(error.value)
    assert said.startswith("openai/gsm8k: ")
    assert f"`dreamer download {path} --mirror <folder>`" in said
    assert said.endswith("; also not here: mine, mathqa")
