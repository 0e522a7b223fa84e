"""The one list of deployments, and the form that Prefect's UI shows for their parameters."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from prefect.utilities.schema_tools.validation import ValidationError, validate

from flows.prefect.flow import full_study
from flows.prefect.serve import deployments
from flows.study.configuration import Study
from flows.study.loading import as_file, load_study, presets
from tests.flows.small_study import PROJECT


def test_the_list_has_full_study_and_every_preset() -> None:
    listed = deployments(PROJECT / "prefect.yaml")
    assert {one.name: one.parameters["study"] for one in listed} == {"full-study": "demo"} | {n: n for n in presets()}
    assert all(one.description for one in listed)


def test_the_form_offers_presets_a_file_or_the_values_of_a_study() -> None:
    schema = full_study.parameters.model_dump()
    preset, file, values = schema["properties"]["study"]["anyOf"]
    assert preset["enum"] == presets()
    assert file["type"] == "string"
    study = schema["definitions"][values["$ref"].rpartition("/")[2]]
    assert set(study["properties"]) == set(Study.model_fields)
    assert all(schema["properties"][name].get("description") for name in schema["properties"])
    for section in ("Tokenizer", "Data", "Models", "Variant", "Study"):
        for name, field in schema["definitions"][section]["properties"].items():
            assert "description" in field or "$ref" in field, f"{section}.{name}"


@pytest.mark.parametrize("path", [*PROJECT.glob("flows/study/presets/*.yaml"), *PROJECT.glob("tests/studies/*.yaml")])
def test_the_server_accepts_what_a_study_file_may_say(path: Path) -> None:
    values, schema = yaml.safe_load(path.read_text()), full_study.parameters.model_dump_for_openapi()
    validate({"study": values}, schema, raise_on_error=True)
    with pytest.raises(ValidationError):
        validate({"study": {**values, "models": {"variants": ["XX"]}}}, schema, raise_on_error=True)


@pytest.mark.parametrize("name", presets())
def test_values_come_back_from_their_file(name: str, tmp_path: Path) -> None:
    study = load_study(name)
    path = as_file(study, root=tmp_path)
    assert Path(path) == tmp_path / "study.yaml"
    assert load_study(path).model_dump(exclude={"root"}) == study.model_dump(exclude={"root"})
    assert as_file(name) == name
    assert yaml.safe_load((tmp_path / "study.yaml").read_text())["name"] == name
