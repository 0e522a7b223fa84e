"""`data.like`: the tokenizer and the held-out documents of another study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from tests.flows.small_study import small_study


def written(folder: Path, name: str, **data: Any) -> Path:
    content = yaml.safe_load(small_study(folder).read_text())
    content["name"] = name
    content["root"] = str(folder / name)
    if "like" in data:
        for key in ("tokenizer", "validation"):
            content["data"].pop(key, None)
    content["data"] |= data
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        _ = Plan(load_study(path)).data
    return str(caught.value)


def test_a_study_that_cannot_be_taken_from_is_refused_in_one_line(tmp_path: Path) -> None:
    written(tmp_path, "clean")
    unmade = written(tmp_path, "unmade", like="clean.yaml")
    assert "data.like: clean.yaml: its data have not been made yet" in refusal(unmade)
    assert "clean.yaml` makes them" in refusal(unmade)
    second = written(tmp_path, "second", like="unmade.yaml")
    assert "takes both from clean.yaml; name that study" in refusal(second)
    itself = written(tmp_path, "itself", like="itself.yaml")
    assert "is this study itself" in refusal(itself)
    missing = written(tmp_path, "missing", like="nowhere.yaml")
    assert "nowhere.yaml" in refusal(missing)


def test_studies_from_before_keep_their_names_and_keys(tmp_path: Path) -> None:
    """Keys that came later say nothing where they are not used."""
    plain = load_study(written(tmp_path, "plain"))
    said = load_study(written(tmp_path, "plain", deduplicate={"remove": True}))
    kept = load_study(written(tmp_path, "plain", deduplicate={"remove": False}))
    assert plain.study_id == said.study_id != kept.study_id
    unique = [Plan(study).data.unique for study in (plain, said, kept)]
    assert unique[0].key == unique[1].key != unique[2].key
    assert "remove" not in unique[0].configuration
    assert load_study("demo").study_id == "demo-a8a2fec4"
