"""Every key of a study file is described, for editors and for the reference."""

from typing import Any

import pytest

from dreamer_study.flows.study.schema import study_schema

SCHEMA = study_schema()
KINDS: dict[str, Any] = {"Study": SCHEMA, **SCHEMA["$defs"]}
KEYS = [(kind, key) for kind, of in KINDS.items() for key in of.get("properties", {})]


def test_there_are_keys_of_every_section() -> None:
    assert len(KEYS) > 200
    sections = {"Study", "Data", "Models", "Training", "Evaluation", "Compute"}
    assert {kind for kind, _ in KEYS} > sections | {"Source", "Benchmark", "DreamerConfig"}


@pytest.mark.parametrize(("kind", "key"), KEYS)
def test_a_key_has_a_description(kind: str, key: str) -> None:
    description = KINDS[kind]["properties"][key].get("description", "")
    assert len(description.split()) >= 2, f"{kind}.{key}: {description!r}"
